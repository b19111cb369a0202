// SPDX-License-Identifier: Apache-2.0
//
// Finds, loads and calls the plugin for plain MPI.

#include "perf/plain_mpi.hpp"

#include <dlfcn.h>

#include <array>
#include <vector>

#include "support/engine_path.hpp"
#include "support/failure.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf {
namespace {

/// The arguments of MPI's call, and what they refer to.
struct Call {
  Call(const Collective& collective, const void* send, void* receive, std::uint64_t count) {
    for (const std::size_t part : collective.unevenParts(count)) parts.push_back(part);
    const CollectiveChoice& choice = collective.choice();
    arguments = {.collective = static_cast<int>(choice.name),
                 .datatype = collective.datatype(),
                 .operation = static_cast<int>(choice.operation),
                 .root = choice.root,
                 .send = send,
                 .receive = receive,
                 .count = count,
                 .parts = parts.empty() ? nullptr : parts.data()};
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  std::vector<std::uint64_t> parts;
  ZipcclPlainMpiCall arguments{};
};

}  // namespace

PlainMpi::PlainMpi() {
  // Beside libzipccl.so, which has its own plugin for MPI there.
  const std::string path = enginePath().replace_filename(kPlainMpiFile).string();
  // Never closed: MPI does not survive that.
  void* const plugin = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) throw Failure(printable(::dlerror(), 400));
  using Entry = const ZipcclPlainMpiFunctions* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(plugin, kPlainMpiSymbol));
  if (entry == nullptr) throw Failure(path + " is no plugin of this command");
  functions_ = entry();
  if (functions_->version != kPlainMpiVersion ||
      functions_->structBytes != sizeof(ZipcclPlainMpiFunctions)) {
    throw Failure(path + " is of another version: install both from one build");
  }
}

void PlainMpi::open() { check(functions_->open(), "MPI_Comm_dup"); }

void PlainMpi::close() noexcept { static_cast<void>(functions_->close()); }

std::string PlainMpi::libraryVersion() const {
  std::array<char, 256> text{};
  functions_->libraryVersion(text.data(), static_cast<int>(text.size()));
  const std::string words = text.data();
  return printable(words.substr(0, words.find_first_of("\n,")));
}

std::string PlainMpi::refusal(const Collective& collective, std::uint64_t mostCount) const {
  const Call call(collective, nullptr, nullptr, mostCount);
  const char* const words = functions_->refusal(&call.arguments);
  return words == nullptr ? "" : words;
}

void PlainMpi::call(const Collective& collective, const void* send, void* receive,
                    std::uint64_t count) const {
  const Call call(collective, send, receive, count);
  check(functions_->call(&call.arguments), typedName(collective.choice().name));
}

void PlainMpi::check(int error, const char* what) const {
  if (error == 0) return;
  std::array<char, 512> text{};
  functions_->errorText(error, text.data(), static_cast<int>(text.size()));
  throw Failure(std::string("plain MPI: ") + what + ": " + printable(text.data(), 400));
}

}  // namespace zipccl::tools::perf
