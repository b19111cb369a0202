// SPDX-License-Identifier: Apache-2.0
//
// The MPI of this process, as the MPI transports share it: the plugin's functions, whether MPI was
// initialised here, and the communicators of transports that are gone.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "transport/mpi/mpi_functions.hpp"

namespace zipccl::transport {

/// What ranks tell each other outside the data: failures, departures, and where they are.
/// Every message has this one form and size.
struct MpiNotice {
  enum class Kind : std::uint32_t { kFailure = 1, kLeaving = 2, kQuestion = 3, kAnswer = 4 };

  static constexpr std::uint32_t kMagic = 0x5A434D31;  // "ZCM1"

  std::uint32_t magic = kMagic;
  Kind kind = Kind::kFailure;
  std::int32_t code = 0;                    ///< kFailure: the ErrorCode for the involved ranks
  std::int32_t involved[3] = {-1, -1, -1};  ///< kFailure: ranks
  std::uint64_t collectiveCount = 0;        ///< collective operations that the sender has started
  std::uint64_t sentCount = 0;      ///< messages that the sender has started to the receiver
  std::uint64_t receivedCount = 0;  ///< messages that the sender has started to take from it
  char text[464] = {};              ///< kFailure: with a closing zero
};
static_assert(sizeof(MpiNotice) == 512);

/// A notice on its way. MPI may read it until the request is done.
struct MpiNoticeSend {
  MpiNotice notice;
  ZipcclMpiHandle request = {};
  bool isDone = false;
};

inline constexpr int kMpiDataTag = 1;
inline constexpr int kMpiControlTag = 2;
inline constexpr int kMpiNoticeTag = 3;

/// The communicators of one transport, and what is needed to know when they may be freed: MPI may
/// give a freed one's number to the next, which would then get the messages that were still on
/// their way. So they are kept until every rank has said that it leaves.
struct MpiCommunicators {
  ZipcclMpiHandle data = {};
  ZipcclMpiHandle control = {};
  std::uint64_t creationIndex = 0;  ///< their order, the same on all ranks
  std::vector<bool> hasLeft;        ///< by rank; the own one is true
  std::vector<std::unique_ptr<MpiNoticeSend>> notices;
};

/// Not thread-safe, as MPI itself here.
class MpiLibrary {
 public:
  /// Initialises MPI if nobody has. Throws Error(kSystemError).
  explicit MpiLibrary(const ZipcclMpiFunctions& functions);

  /// The library over the plugin, loaded at the first call and never destroyed; at exit it
  /// finalises MPI as loadMpiTransport() says.
  [[nodiscard]] static std::shared_ptr<MpiLibrary> ofPlugin();

  [[nodiscard]] const ZipcclMpiFunctions& functions() const noexcept { return functions_; }

  /// Throws Error(kSystemError) with MPI's words unless `error` is 0.
  void check(int error, std::string_view call,
             SourceLocation where = SourceLocation::current()) const;
  [[nodiscard]] std::string textOf(int error) const;
  /// What MPI_Get_library_version() says, perhaps cut.
  [[nodiscard]] std::string version() const;

  /// Throws Error(kSystemError) if MPI is over, or the parent's.
  void requireUsable() const;

  /// Whether this process is a child, by fork(), of the one that this library was made in.
  [[nodiscard]] bool isInChild() const noexcept;

  /// Of a transport that has been made with `communicators`; retire() is its end.
  void addTransport(MpiCommunicators& communicators);

  /// Takes over what a transport leaves behind. Never throws; what cannot be kept is leaked.
  void retire(std::unique_ptr<MpiCommunicators> communicators, bool hasFailed) noexcept;

  /// Keeps communicators that MPI may go on to use for as long as this library lives.
  void keep(std::unique_ptr<MpiCommunicators> communicators) noexcept;

  /// Frees the communicators that every rank has left, strictly in the order of their creation, up
  /// to the first that is in use: freeing is a collective call. After a failure some are never
  /// freed, and none that came later. Does not wait.
  void sweep();

  /// Waits, as long as it takes, until every rank has left every transport, and finalises MPI. Does
  /// not, and returns false, where that could hang or is not this library's to do: MPI was
  /// initialised by the program or by the parent of this process or is over, a transport still
  /// exists, or one has failed on any rank.
  bool finalise() noexcept;

 private:
  [[nodiscard]] bool canFinalise() const noexcept {
    return didInitialise_ && !hasFailed_ && live_.empty();
  }
  [[nodiscard]] bool isFreeable(MpiCommunicators& communicators);

  const ZipcclMpiFunctions& functions_;
  const int processId_;
  bool didInitialise_ = false;
  bool hasFailed_ = false;
  std::uint64_t creationCount_ = 0;
  std::vector<std::uint64_t> live_;  ///< creation indices of what is in use, ascending
  std::vector<std::unique_ptr<MpiCommunicators>> retired_;  ///< in the order of their creation
  std::vector<std::unique_ptr<MpiCommunicators>> kept_;
};

}  // namespace zipccl::transport
