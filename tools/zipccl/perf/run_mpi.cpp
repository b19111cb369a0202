// SPDX-License-Identifier: Apache-2.0
//
// Ranks as the processes of an MPI job.

#include <algorithm>
#include <memory>
#include <optional>

#include "perf/plain_mpi.hpp"
#include "perf/process_run.hpp"
#include "perf/run_parts.hpp"

namespace zipccl::tools::perf {
namespace {

class MpiRun final : public ProcessRun {
 public:
  MpiRun(const Options& options, const std::vector<std::string>& arguments, const Streams& streams)
      : ProcessRun(
            options, arguments, streams,
            std::make_unique<CommunicatorControl>(Communicator::createMpi(zipcclStrategyNative))) {
    // One after the other on every rank.
    communicators().native = Communicator::createMpi(zipcclStrategyNative);
    communicators().zipccl = Communicator::createMpi(options.strategy);
  }

 private:
  void open() override {}
  [[nodiscard]] RankDevice& device() override { return *device_; }
  [[nodiscard]] std::string launcher() const override { return "mpirun"; }

  [[nodiscard]] const PlainMpi* openPlainMpi() override {
    agree([this] { openOnAllRanks(); });
    return plainMpi_ ? &*plainMpi_ : nullptr;
  }

  /// MPI's own collective is measured beside the library's where every rank can call it.
  void openOnAllRanks() {
    std::string reason;
    try {
      plainMpi_.emplace();
      reason = plainMpi_->refusal(collective(), mostCount());
    } catch (const Failure& failure) {
      reason = failure.what();
    }
    const std::vector<std::uint8_t> has =
        control().gather(static_cast<std::uint8_t>(reason.empty() ? 1 : 0));
    const auto first = std::find(has.begin(), has.end(), 0);
    if (first == has.end()) {
      plainMpi_->open();
      info().plainMpi = plainMpi_->libraryVersion();
      return;
    }
    plainMpi_.reset();
    info().noPlainMpi =
        reason.empty() ? "rank " + std::to_string(first - has.begin()) + " cannot" : reason;
  }

  void close() override {
    if (plainMpi_) plainMpi_->close();
  }

  std::unique_ptr<RankDevice> device_ = makeHostDevice();
  std::optional<PlainMpi> plainMpi_;
};

}  // namespace

ExitStatus runMpi(const Options& options, const std::vector<std::string>& arguments,
                  const Streams& streams) {
  return MpiRun(options, arguments, streams).run();
}

}  // namespace zipccl::tools::perf
