// SPDX-License-Identifier: Apache-2.0
//
// NCCL as the collectives use it: the functions of one image, on untyped bytes, with errors as
// exceptions. It is no Transport: that one's operations belong to one communicator and complete
// on the host, while NCCL's are ordered in streams, and those of several communicators that one
// thread drives must stand in one group (docs/decisions/0009-rounds-over-nccl.md).

#pragma once

#include <zipccl/nccl_engine.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.hpp"
#include "transport/transport.hpp"

namespace zipccl::transport {

/// Values of ncclResult_t and ncclDataType_t that are used here.
inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclInProgress = 7;
inline constexpr int kNcclUint8 = 1;

/// Elements as NCCL counts them.
struct NcclElements {
  std::uint64_t count = 0;
  std::uint64_t elementBytes = 1;
  int datatype = kNcclUint8;
};

/// One rank of a communicator of NCCL, not owned. Every operation is ordered on its stream and
/// returns before it is done; inside a group it only begins at the group's end.
class NcclLink {
 public:
  /// Asks for rank, number of ranks and device. Throws Error as all members do: what NCCL returned,
  /// with its words.
  NcclLink(const zipcclNcclApi& api, void* comm);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int rankCount() const noexcept { return rankCount_; }
  [[nodiscard]] int deviceNumber() const noexcept { return deviceNumber_; }
  [[nodiscard]] const zipcclNcclApi& api() const noexcept { return *api_; }

  /// What ncclCommGetAsyncError says: kNcclSuccess, kNcclInProgress or an error.
  [[nodiscard]] int asyncError() const;

  /// What the program sends and receives as it is must have its own datatype: the peer may have
  /// called NCCL itself, and NCCL wants both to name the same.
  void send(const void* data, const NcclElements& elements, int peer, StreamHandle stream);
  void receive(void* data, const NcclElements& elements, int peer, StreamHandle stream);
  void send(const void* data, std::uint64_t bytes, int peer, StreamHandle stream) {
    send(data, NcclElements{.count = bytes}, peer, stream);
  }
  void receive(void* data, std::uint64_t bytes, int peer, StreamHandle stream) {
    receive(data, NcclElements{.count = bytes}, peer, stream);
  }
  /// `receive` gets `bytes` of each rank.
  void allGather(const void* send, void* receive, std::uint64_t bytes, StreamHandle stream);
  void broadcast(void* buffer, std::uint64_t bytes, int root, StreamHandle stream);

  /// Bytes that this rank gave to other ranks, as TransportStatistics::wireBytes counts them; for
  /// any thread at any time.
  [[nodiscard]] std::uint64_t wireBytes() const noexcept {
    return wireBytes_.load(std::memory_order_relaxed);
  }
  /// Counts what the rank gave by other ways than this link.
  void addWireBytes(std::uint64_t bytes) noexcept {
    wireBytes_.fetch_add(bytes, std::memory_order_relaxed);
  }

 private:
  void check(int result, const char* what) const;
  [[nodiscard]] std::uint64_t peerCount() const noexcept {
    return static_cast<std::uint64_t>(rankCount_ - 1);
  }

  const zipcclNcclApi* api_;
  void* comm_;
  int rank_ = 0;
  int rankCount_ = 0;
  int deviceNumber_ = 0;
  std::atomic<std::uint64_t> wireBytes_ = 0;
};

/// What `result`, no success, of a call on `comm`, which may be null, means: in NCCL's words.
[[nodiscard]] std::string wordsOfNccl(const zipcclNcclApi& api, void* comm, int result);

/// Bytes that a rank gives to the others in a call that is made as it is, whose elements have
/// `elementBytes` bytes: as TransportStatistics::wireBytes counts them, whatever ways NCCL takes.
[[nodiscard]] std::uint64_t wireBytesOf(const zipcclNcclCall& call, std::uint64_t elementBytes,
                                        int rank, int rankCount) noexcept;

/// The call as the program made it. Returns NCCL's result.
[[nodiscard]] int callNative(const zipcclNcclApi& api, const zipcclNcclCall& call);

/// A group of NCCL calls that is ended in any case.
class NcclGroup {
 public:
  explicit NcclGroup(const zipcclNcclApi& api);
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup();

  /// Ends the group: its operations begin. Returns NCCL's result.
  [[nodiscard]] int end();

 private:
  const zipcclNcclApi& api_;
  bool isOpen_ = true;
};

/// The code of this library for a result of NCCL; those beyond are kInternalError.
[[nodiscard]] ErrorCode errorCodeOf(int result) noexcept;

}  // namespace zipccl::transport
