// SPDX-License-Identifier: Apache-2.0
//
// Ranges of NVTX around calls over NCCL, as a profiler sees them: this program is one, by the
// static injection of NVTX, whose symbol its header would define too, weakly, if it were not kept
// to declarations.

#define NVTX_NO_IMPL

#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/call_range.hpp"
#include "collectives/test_settings.hpp"
#include "nccl_ranks.hpp"

namespace zipccl::collectives::testing {
namespace {

/// What the profiler heard.
struct Heard {
  std::mutex mutex;
  std::string domain;
  nvtxRangeId_t last = 0;
  std::map<nvtxRangeId_t, std::string> open;
  std::vector<std::string> names;
};

Heard& heard() {
  static Heard* const instance = new Heard;
  return *instance;
}

nvtxDomainHandle_t createDomain(const char* name) {
  const std::lock_guard lock(heard().mutex);
  heard().domain = name;
  return reinterpret_cast<nvtxDomainHandle_t>(&heard());
}

nvtxRangeId_t startRange(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  EXPECT_EQ(domain, reinterpret_cast<nvtxDomainHandle_t>(&heard()));
  EXPECT_EQ(attributes->messageType, static_cast<int>(NVTX_MESSAGE_TYPE_ASCII));
  const std::lock_guard lock(heard().mutex);
  const nvtxRangeId_t id = ++heard().last;
  heard().open[id] = attributes->message.ascii;
  heard().names.emplace_back(attributes->message.ascii);
  return id;
}

void endRange(nvtxDomainHandle_t /*domain*/, nvtxRangeId_t id) {
  const std::lock_guard lock(heard().mutex);
  EXPECT_EQ(heard().open.erase(id), 1U) << "a range ends twice, or never began";
}

int inject(NvtxGetExportTableFunc_t getTable) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(getTable(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr) return 0;
  NvtxFunctionTable table = nullptr;
  unsigned count = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &count) == 0) return 0;
  if (count <= NVTX_CBID_CORE2_DomainCreateA) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(createDomain);
  *table[NVTX_CBID_CORE2_DomainRangeStartEx] = reinterpret_cast<NvtxFunctionPointer>(startRange);
  *table[NVTX_CBID_CORE2_DomainRangeEnd] = reinterpret_cast<NvtxFunctionPointer>(endRange);
  return 1;
}

std::vector<std::string> takeNames() {
  const std::lock_guard lock(heard().mutex);
  std::vector<std::string> names = std::exchange(heard().names, {});
  std::sort(names.begin(), names.end());
  return names;
}

void onTwoRanks(const std::function<void(NcclRank&)>& work) {
  const std::vector<CommunicatorSettings> settings(2, testSettings());
  onNcclRanks(settings, work);
}

TEST(NcclRanges, TellEachCallAndEnd) {
  onTwoRanks([](NcclRank& rank) {
    run(rank, {{.count = 30'000},
               {.kind = zipcclNcclAllReduce, .datatype = Datatype::kFloat32},
               {.datatype = Datatype::kInt32, .count = 5},
               {.kind = zipcclNcclAlltoAll},
               {.kind = zipcclNcclSend}});
    EXPECT_EQ(rank.error(), "");
  });
  std::vector<std::string> expected;
  for (int rank = 0; rank < 2; ++rank) {
    for (const char* const name :
         {"AllGather bfloat16 30000 staged", "AllReduce float32 20000 staged",
          "AllReduce float32 20000 staged", "AllGather int32 5 native",
          "AlltoAll bfloat16 20000 staged", "SendRecv, 2 messages"}) {
      expected.push_back(std::string("ZipCCL ") + name);
    }
  }
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(takeNames(), expected);
  EXPECT_TRUE(heard().open.empty());
  EXPECT_EQ(heard().domain, "ZipCCL");
}

TEST(NcclRanges, MoveAndEndOnce) {
  takeNames();
  {
    CallRange range(CollectiveKind::kBroadcast, Datatype::kFloat16, 7, policy::Strategy::kNative);
    CallRange moved(std::move(range));
    EXPECT_EQ(heard().open.size(), 1U);
    CallRange other(3);
    other = std::move(moved);
    other = CallRange();
    EXPECT_EQ(heard().open.size(), 1U);
  }
  EXPECT_TRUE(heard().open.empty());
  const std::vector<std::string> expected = {"ZipCCL Broadcast float16 7 native",
                                             "ZipCCL SendRecv, 3 messages"};
  EXPECT_EQ(takeNames(), expected);
}

}  // namespace
}  // namespace zipccl::collectives::testing

extern "C" {
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr =
    zipccl::collectives::testing::inject;
}
