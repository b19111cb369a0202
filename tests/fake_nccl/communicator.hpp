// SPDX-License-Identifier: Apache-2.0
//
// One rank of a fake communicator: its state, its operations, and how they are carried out.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "arena.hpp"
#include "arithmetic.hpp"
#include "device.hpp"

namespace zipccl::testing {

enum class Kind : int {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kBroadcast,
  kReduce,
  kAlltoAll,
  kGather,
  kScatter,
  kSend,
  kReceive,
};

/// An operation of ncclRedOpCreatePreMulSum.
struct UserOperation {
  int datatype = 0;
  double scalar = 1.0;
  const void* deviceScalar = nullptr;  // read when the call runs
};

struct Call {
  Kind kind = Kind::kAllGather;
  const void* sendbuff = nullptr;
  void* recvbuff = nullptr;
  std::size_t count = 0;
  int datatype = 0;
  int op = 0;
  int peer = 0;  // or root
  fakeStream_t stream = nullptr;
  std::optional<UserOperation> user;  // what op is; taken at the call, as NCCL does
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  explicit Communicator(bool isBlocking);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  /// Becomes rank `rank` of `ranks` and meets the others in the arena `name`. Returns a result of
  /// NCCL.
  int join(const std::string& name, int ranks, int rank);

  /// Says `color` and `key` to the ranks of this communicator, and hears theirs. Gives the name,
  /// the number of ranks and the rank of the communicator of this rank's color.
  int splitPlan(int color, int key, std::string& name, int& ranks, int& rank);

  [[nodiscard]] int ranks() const noexcept { return ranks_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int device() const noexcept { return device_; }
  [[nodiscard]] bool isBlocking() const noexcept { return isBlocking_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] int nextChild() noexcept { return ++childCount_; }

  /// ncclSuccess, ncclInProgress, or the error that ended the communicator.
  [[nodiscard]] int state() const noexcept { return state_; }
  void setState(int result) noexcept { state_ = result; }

  /// NCCL's checks of arguments; empty when there is nothing to say.
  [[nodiscard]] std::string check(const Call& call) const;

  /// Enqueues calls of one group, as one kernel: collectives in their order, then all sends and
  /// receives at once. It runs after everything that the streams of the calls hold so far, and
  /// before everything that they get later.
  void launch(const std::vector<Call>& calls);

  /// Ends what runs and what is to run.
  void abort();
  /// Waits until everything launched is done.
  void flush();

  [[nodiscard]] std::optional<UserOperation> userOperation(int op) const;
  int addOperation(const UserOperation& operation);
  bool removeOperation(int op);

 private:
  void perform(const std::vector<Call>& calls, std::uint64_t turn);
  [[nodiscard]] std::string performCollective(const Call& call);
  [[nodiscard]] std::string performPairs(const std::vector<Call>& calls);
  void endTurn();

  int ranks_ = 0;
  int rank_ = 0;
  int device_;
  bool isBlocking_;
  std::string name_;
  int childCount_ = 0;
  std::unique_ptr<Arena> arena_;
  std::atomic<int> state_{kNcclSuccess};
  std::atomic<bool> isAborted_{false};

  std::mutex turnMutex_;
  std::condition_variable turnChanged_;
  std::uint64_t launched_ = 0;
  std::uint64_t performed_ = 0;

  mutable std::mutex operationsMutex_;
  std::map<int, UserOperation> operations_;
  int operationsMade_ = 0;
};

}  // namespace zipccl::testing
