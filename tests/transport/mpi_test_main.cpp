// SPDX-License-Identifier: Apache-2.0
//
// main() of test programs that run under mpirun. Rank 0 prints gtest's report, the others their
// failures only, each line with its rank.

#include "mpi_test_main.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "transport/mpi_transport.hpp"

namespace zipccl::transport {

namespace {

std::unique_ptr<Transport>& sharedTransport() {
  static std::unique_ptr<Transport> transport;
  return transport;
}

class FailurePrinter : public ::testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", worldTransport().rank(),
                 result.file_name() == nullptr ? "?" : result.file_name(), result.line_number(),
                 result.message());
  }
};

int runTests() {
  const std::unique_ptr<Transport>& transport = sharedTransport();
  if (transport->rank() != 0) {
    ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
  }
  const int failure = RUN_ALL_TESTS();
  if (transport->hasFailed()) return 1;
  std::vector<int> all(static_cast<std::size_t>(transport->rankCount()));
  transport->allGatherControl(std::as_bytes(std::span(&failure, 1)),
                              std::as_writable_bytes(std::span(all)));
  for (const int one : all) {
    if (one != 0) return 1;
  }
  return 0;
}

}  // namespace

Transport& worldTransport() { return *sharedTransport(); }

std::uint64_t sharedSeed() {
  const std::uint64_t mine = freshSeed();
  std::vector<std::uint64_t> all(static_cast<std::size_t>(worldTransport().rankCount()));
  worldTransport().allGatherControl(std::as_bytes(std::span(&mine, 1)),
                                    std::as_writable_bytes(std::span(all)));
  return all[0];
}

}  // namespace zipccl::transport

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  int status = 1;
  try {
    zipccl::transport::sharedTransport() =
        zipccl::transport::loadMpiTransport({.timeout = std::chrono::seconds(60)});
    status = zipccl::transport::runTests();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  zipccl::transport::sharedTransport().reset();
  return status;
}
