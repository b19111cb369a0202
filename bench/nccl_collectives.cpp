// SPDX-License-Identifier: Apache-2.0
//
// Compressed collectives over a real NCCL against native ones, two processes with a GPU each, or
// with --shared both on one, each as a host of its own: every call is checked, and timed in
// interleaved pairs. One line of JSON for each case. NCCL is loaded at run time; which link it uses
// its own environment says (NCCL_P2P_DISABLE=1 and so on), what is compressed that of ZipCCL.

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zipccl/nccl_engine.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "support/safetensors.hpp"

namespace {

constexpr int kRanks = 2;
constexpr int kBfloat16 = 9;
constexpr int kFloat32 = 7;

struct UniqueId {
  std::array<char, 128> bytes;
};

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  ::_exit(3);
}
void check(cudaError_t status) {
  if (status != cudaSuccess) die(cudaGetErrorString(status));
}

/// What the two processes share.
struct Shared {
  std::atomic<int> arrived{0};
  std::atomic<int> generation{0};
  UniqueId id{};
  std::array<std::atomic<double>, kRanks> values{};
  std::atomic<int> wrong{0};

  void barrier() {
    const int mine = generation.load();
    if (arrived.fetch_add(1) == kRanks - 1) {
      arrived.store(0);
      generation.fetch_add(1);
      return;
    }
    while (generation.load() == mine) std::this_thread::yield();
  }
  double most(int rank, double value) {
    values[static_cast<std::size_t>(rank)].store(value);
    barrier();
    const double most = std::max(values[0].load(), values[1].load());
    barrier();
    return most;
  }
};

struct Options {
  std::string nccl = "libnccl.so.2";
  std::string data = "data";
  std::string link = "default";
  std::vector<std::string> cases;
  std::vector<std::size_t> megabytes{64};
  int pairs = 15;
  bool isShared = false;
};

/// `AllGather:bfloat16:file:tensor`, or `normal` in place of the tensor.
struct Case {
  std::string name;
  zipcclNcclKind kind = zipcclNcclAllGather;
  int datatype = kBfloat16;
  int op = 0;
  std::string file;
  std::string tensor;
};

Case parseCase(const std::string& text) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while (at != std::string::npos) {
    const std::size_t end = text.find(':', at);
    words.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    at = end == std::string::npos ? end : end + 1;
  }
  if (words.size() != 3) die("a case is KIND:DATATYPE:DATA, not " + text);
  static const std::vector<std::pair<std::string, zipcclNcclKind>> kKinds = {
      {"AllGather", zipcclNcclAllGather}, {"ReduceScatter", zipcclNcclReduceScatter},
      {"AllReduce", zipcclNcclAllReduce}, {"Broadcast", zipcclNcclBroadcast},
      {"AlltoAll", zipcclNcclAlltoAll},   {"SendRecv", zipcclNcclSend}};
  Case made;
  made.name = text;
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                 [&](const auto& each) { return each.first == words[0]; });
  if (kind == kKinds.end()) die("no kind " + words[0]);
  made.kind = kind->second;
  made.datatype = words[1] == "float" ? kFloat32 : kBfloat16;
  made.file = words[1] == "float" ? "fp32.safetensors" : "bf16.safetensors";
  made.tensor = words[2];
  return made;
}

class Bench {
 public:
  Bench(const Options& options, Shared& shared, int rank)
      : options_(options), shared_(shared), rank_(rank) {
    check(cudaSetDevice(options.isShared ? 0 : rank));
    // NCCL refuses a second rank of one host on a device.
    if (options.isShared) ::setenv("NCCL_HOSTID", ("rank-" + std::to_string(rank)).c_str(), 1);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check(cudaEventCreate(&start_));
    check(cudaEventCreate(&stop_));
    loadNccl();
    using Clock = std::chrono::steady_clock;
    const double usedBefore = usedMib();
    const auto before = Clock::now();
    engine_->attach(&api_, &comm_, 1, &attached_);
    if (rank == 0) {
      std::fprintf(stderr, "attached in %.0f ms\n",
                   std::chrono::duration<double, std::milli>(Clock::now() - before).count());
    }
    if (attached_ == nullptr) die("not attached");
    // With what NCCL's own connections take for that.
    grownMib_ = usedMib() - usedBefore;
  }

  void run(const Case& test, std::size_t megabytes) {
    const std::size_t bytesEach = test.datatype == kFloat32 ? 4 : 2;
    const std::size_t bytes = megabytes << 20;  // of the larger buffer's part of a rank
    const bool isMany = test.kind == zipcclNcclAllGather || test.kind == zipcclNcclAlltoAll ||
                        test.kind == zipcclNcclReduceScatter;
    // As NCCL's tests count: the larger buffer has so many bytes for each rank.
    const std::size_t count = bytes / bytesEach;
    const std::size_t inBytes = bytes * (isMany && test.kind != zipcclNcclAllGather ? kRanks : 1);
    const std::size_t outBytes =
        bytes * (isMany && test.kind != zipcclNcclReduceScatter ? kRanks : 1);
    std::byte* const in = allocate(inBytes);
    std::byte* const out[2] = {allocate(outBytes), allocate(outBytes)};
    fill(test, in, inBytes);

    std::vector<zipcclNcclCall> calls[2];
    for (int form = 0; form < 2; ++form) calls[form] = callsOf(test, in, out[form], count);
    const auto native = [&] { return runNative(calls[0]); };
    const auto ours = [&] { return engine_->run(calls[1].data(), calls[1].size()); };
    std::size_t wrongBytes = 0;
    // What NCCL takes for its connections is not ours.
    static_cast<void>(timed(native));
    const double usedBefore = usedMib();
    for (int i = 0; i < 3; ++i) {
      check(cudaMemsetAsync(out[0], 0xA5, outBytes, stream_));
      check(cudaMemsetAsync(out[1], 0x5A, outBytes, stream_));
      static_cast<void>(timed(native));
      static_cast<void>(timed([&] {
        const int result = ours();
        // As a program's allocator does at any time: this waits for the device.
        check(cudaFree(allocate(std::size_t{1} << 20)));
        return result;
      }));
      wrongBytes += compare(out[0], out[1], outBytes);
    }
    grownMib_ += usedMib() - usedBefore;
    std::vector<double> nativeUs, oursUs, ratios;
    for (int i = 0; i < options_.pairs; ++i) {
      const bool isNativeFirst = i % 2 == 0;
      const double first = isNativeFirst ? timed(native) : timed(ours);
      const double second = isNativeFirst ? timed(ours) : timed(native);
      nativeUs.push_back(isNativeFirst ? first : second);
      oursUs.push_back(isNativeFirst ? second : first);
      ratios.push_back(nativeUs.back() / oursUs.back());
    }
    wrongBytes += compare(out[0], out[1], outBytes);
    if (wrongBytes != 0) shared_.wrong.fetch_add(1);
    shared_.barrier();
    if (rank_ == 0) {
      const auto median = [](std::vector<double> values) {
        std::sort(values.begin(), values.end());
        return values[values.size() / 2];
      };
      std::sort(ratios.begin(), ratios.end());
      const nlohmann::json line = {
          {"link", options_.link},
          {"case", test.name},
          {"megabytes", megabytes},
          {"pairs", options_.pairs},
          {"nativeUs", median(nativeUs)},
          {"oursUs", median(oursUs)},
          {"ratio", median(ratios)},
          {"ratioLow", ratios.front()},
          {"ratioHigh", ratios.back()},
          {"nativeGBps", 1e-3 * static_cast<double>(bytes) / median(nativeUs)},
          {"grownSinceStartMib", grownMib_},
          {"wrongBytes", wrongBytes}};
      std::printf("%s\n", line.dump().c_str());
      std::fflush(stdout);
    }
    check(cudaFree(in));
    for (std::byte* each : out) check(cudaFree(each));
    if (const char* words = engine_->lastError(attached_)) die(words);
  }

  void finish() {
    engine_->detach(attached_);
    api_.commDestroy(comm_);
  }

 private:
  /// What a rank holds of its device: an equal part of it where ranks share one.
  [[nodiscard]] double usedMib() {
    shared_.barrier();
    std::size_t freeBytes = 0;
    std::size_t totalBytes = 0;
    check(cudaMemGetInfo(&freeBytes, &totalBytes));
    shared_.barrier();
    return static_cast<double>((totalBytes - freeBytes) >> 20) / (options_.isShared ? kRanks : 1);
  }

  [[nodiscard]] static std::byte* allocate(std::size_t bytes) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes));
    return static_cast<std::byte*>(memory);
  }

  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(api_.image, name));
    if (function == nullptr) die(std::string("no ") + name);
  }

  void loadNccl() {
    engine_ = zipcclGetNcclEngine(ZIPCCL_NCCL_ENGINE_VERSION);
    if (engine_ == nullptr) die("no engine");
    api_.size = sizeof(api_);
    api_.image = ::dlopen(options_.nccl.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (api_.image == nullptr) die(::dlerror());
    int (*getVersion)(int*) = nullptr;
    find(getVersion, "ncclGetVersion");
    getVersion(&api_.version);
    find(api_.getErrorString, "ncclGetErrorString");
    find(api_.getLastError, "ncclGetLastError");
    find(api_.groupStart, "ncclGroupStart");
    find(api_.groupEnd, "ncclGroupEnd");
    find(api_.commCount, "ncclCommCount");
    find(api_.commUserRank, "ncclCommUserRank");
    find(api_.commCuDevice, "ncclCommCuDevice");
    find(api_.commGetAsyncError, "ncclCommGetAsyncError");
    find(api_.commSplit, "ncclCommSplit");
    find(api_.commDestroy, "ncclCommDestroy");
    find(api_.commAbort, "ncclCommAbort");
    find(api_.allGather, "ncclAllGather");
    find(api_.reduceScatter, "ncclReduceScatter");
    find(api_.allReduce, "ncclAllReduce");
    find(api_.broadcast, "ncclBroadcast");
    find(api_.reduce, "ncclReduce");
    find(api_.allToAll, "ncclAlltoAll");
    find(api_.gather, "ncclGather");
    find(api_.scatter, "ncclScatter");
    find(api_.send, "ncclSend");
    find(api_.recv, "ncclRecv");
    int (*getUniqueId)(UniqueId*) = nullptr;
    int (*initRank)(void**, int, UniqueId, int) = nullptr;
    find(getUniqueId, "ncclGetUniqueId");
    find(initRank, "ncclCommInitRank");
    if (rank_ == 0 && getUniqueId(&shared_.id) != 0) die("ncclGetUniqueId");
    shared_.barrier();
    if (initRank(&comm_, kRanks, shared_.id, rank_) != 0) die("ncclCommInitRank");
    if (rank_ == 0) std::fprintf(stderr, "NCCL %d\n", api_.version);
  }

  /// The tensor, or N(0, 0.02), again and again from a place of each rank's own.
  void fill(const Case& test, std::byte* to, std::size_t bytes) const {
    std::vector<std::byte> pattern;
    if (test.tensor == "normal" || test.tensor == "random") {
      zipccl::Random random(7, static_cast<std::uint64_t>(rank_));
      pattern.resize(std::size_t{8} << 20);
      if (test.tensor == "random") {
        random.fill(pattern);
      } else {
        for (std::size_t i = 0; i < pattern.size(); i += 2) {
          const auto value = static_cast<float>(0.02 * random.normal());
          std::uint32_t bits = 0;
          std::memcpy(&bits, &value, sizeof(bits));
          const auto upper = static_cast<std::uint16_t>(bits >> 16);
          std::memcpy(pattern.data() + i, &upper, sizeof(upper));
        }
      }
    } else {
      const zipccl::testing::SafetensorsFile file(options_.data + "/" + test.file);
      for (const zipccl::testing::Tensor& tensor : file.tensors()) {
        if (tensor.name == test.tensor) pattern.assign(tensor.bytes.begin(), tensor.bytes.end());
      }
      if (pattern.empty()) die("no tensor " + test.tensor);
      std::rotate(pattern.begin(), pattern.begin() + 4096 * (rank_ + 1), pattern.end());
    }
    for (std::size_t at = 0; at < bytes; at += pattern.size()) {
      check(cudaMemcpy(to + at, pattern.data(), std::min(pattern.size(), bytes - at),
                       cudaMemcpyHostToDevice));
    }
  }

  [[nodiscard]] std::vector<zipcclNcclCall> callsOf(const Case& test, std::byte* in, std::byte* out,
                                                    std::size_t count) const {
    zipcclNcclCall call{};
    call.kind = test.kind;
    call.isGrouped = test.kind == zipcclNcclSend ? 1 : 0;
    call.sendbuff = in;
    call.recvbuff = out;
    call.count = count;
    call.datatype = test.datatype;
    call.peer = test.kind == zipcclNcclSend ? 1 - rank_ : 0;
    call.comm = comm_;
    call.attached = attached_;
    call.stream = stream_;
    std::vector<zipcclNcclCall> calls{call};
    if (test.kind == zipcclNcclSend) {
      call.kind = zipcclNcclRecv;
      calls.push_back(call);
    }
    return calls;
  }

  int runNative(const std::vector<zipcclNcclCall>& calls) {
    const zipcclNcclCall& c = calls[0];
    switch (c.kind) {
      case zipcclNcclAllGather:
        return api_.allGather(c.sendbuff, c.recvbuff, c.count, c.datatype, c.comm, c.stream);
      case zipcclNcclReduceScatter:
        return api_.reduceScatter(c.sendbuff, c.recvbuff, c.count, c.datatype, c.op, c.comm,
                                  c.stream);
      case zipcclNcclAllReduce:
        return api_.allReduce(c.sendbuff, c.recvbuff, c.count, c.datatype, c.op, c.comm, c.stream);
      case zipcclNcclBroadcast:
        return api_.broadcast(c.sendbuff, c.recvbuff, c.count, c.datatype, 0, c.comm, c.stream);
      case zipcclNcclAlltoAll:
        return api_.allToAll(c.sendbuff, c.recvbuff, c.count, c.datatype, c.comm, c.stream);
      default:
        api_.groupStart();
        api_.send(c.sendbuff, c.count, c.datatype, c.peer, c.comm, c.stream);
        api_.recv(calls[1].recvbuff, c.count, c.datatype, c.peer, c.comm, c.stream);
        return api_.groupEnd();
    }
  }

  /// Microseconds on the slower rank, from a common start.
  template <class Work>
  double timed(const Work& work) {
    check(cudaStreamSynchronize(stream_));
    shared_.barrier();
    check(cudaEventRecord(start_, stream_));
    const int result = work();
    if (result != 0) {
      const char* const words = engine_->lastError(attached_);
      die("a call gave " + std::to_string(result) + ": " + (words != nullptr ? words : ""));
    }
    check(cudaEventRecord(stop_, stream_));
    check(cudaStreamSynchronize(stream_));
    float ms = 0.0F;
    check(cudaEventElapsedTime(&ms, start_, stop_));
    return shared_.most(rank_, 1000.0 * static_cast<double>(ms));
  }

  /// Bytes that differ, in host memory.
  [[nodiscard]] std::size_t compare(const std::byte* a, const std::byte* b, std::size_t bytes) {
    check(cudaStreamSynchronize(stream_));
    constexpr std::size_t kStep = std::size_t{16} << 20;
    std::vector<std::byte> left(kStep), right(kStep);
    std::size_t wrong = 0;
    for (std::size_t at = 0; at < bytes; at += kStep) {
      const std::size_t step = std::min(kStep, bytes - at);
      check(cudaMemcpy(left.data(), a + at, step, cudaMemcpyDeviceToHost));
      check(cudaMemcpy(right.data(), b + at, step, cudaMemcpyDeviceToHost));
      if (std::memcmp(left.data(), right.data(), step) == 0) continue;
      for (std::size_t i = 0; i < step; ++i) wrong += left[i] == right[i] ? 0 : 1;
    }
    return wrong;
  }

  const Options& options_;
  Shared& shared_;
  int rank_;
  zipcclNcclApi api_{};
  const zipcclNcclEngine* engine_ = nullptr;
  void* comm_ = nullptr;
  void* attached_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
  double grownMib_ = 0.0;  ///< of the device's memory since the start, by what this library did
};

int runRank(const Options& options, Shared& shared, int rank) {
  Bench bench(options, shared, rank);
  for (const std::string& text : options.cases) {
    const Case test = parseCase(text);
    for (const std::size_t megabytes : options.megabytes) bench.run(test, megabytes);
  }
  bench.finish();
  return shared.wrong.load() == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Compressed collectives over NCCL against native ones, on two GPUs or one"};
  app.add_option("--nccl", options.nccl, "the file libnccl.so.2");
  app.add_option("--data", options.data, "the folder with the sample tensors");
  app.add_option("--link", options.link, "what to call the link in the output");
  app.add_option("--case", options.cases, "KIND:bfloat16|float:TENSOR|normal|random")->required();
  app.add_option("--megabytes", options.megabytes, "bytes a rank")->delimiter(',');
  app.add_flag("--shared", options.isShared, "both ranks on one GPU, each as a host of its own");
  app.add_option("--pairs", options.pairs, "interleaved pairs");
  CLI11_PARSE(app, argc, argv);

  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) die("mmap");
  auto* const shared = new (memory) Shared;
  std::array<pid_t, kRanks> children{};
  for (int rank = 0; rank < kRanks; ++rank) {
    children[static_cast<std::size_t>(rank)] = ::fork();
    if (children[static_cast<std::size_t>(rank)] == 0) ::_exit(runRank(options, *shared, rank));
  }
  int worst = 0;
  for (int ended = 0; ended < kRanks; ++ended) {
    int status = 0;
    ::wait(&status);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 4;
    worst = std::max(worst, code);
    // The other one would wait for ever.
    if (code > 1) {
      for (const pid_t child : children) ::kill(child, SIGKILL);
    }
  }
  return worst;
}
