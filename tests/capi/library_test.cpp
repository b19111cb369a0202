// SPDX-License-Identifier: Apache-2.0
//
// The calls of the C API that concern the library itself, from C++ and (c99_header_test.c) from C.

#include <gtest/gtest.h>
#include <zipccl/zipccl.h>
#include <zipccl/zipccl_nccl.h>

#include <set>
#include <string>

extern "C" int versionCodeSeenByC(void);
extern "C" int versionCodeLoadedByC(void);
extern "C" zipcclResult_t wrappedByC(zipcclComm_t* comm, ncclComm* nccl);

namespace {

TEST(Library, VersionIsTheOneBuilt) {
  int version = -1;
  ASSERT_EQ(zipcclGetVersion(&version), zipcclSuccess);
  EXPECT_EQ(version, ZIPCCL_VERSION_CODE);
  EXPECT_EQ(versionCodeSeenByC(), ZIPCCL_VERSION_CODE);
  EXPECT_EQ(versionCodeLoadedByC(), ZIPCCL_VERSION_CODE);
}

TEST(Library, VersionRejectsNull) { EXPECT_EQ(zipcclGetVersion(nullptr), zipcclInvalidArgument); }

TEST(Library, EveryResultHasItsOwnSentence) {
  std::set<std::string> sentences;
  for (int value = 0; value < zipcclNumResults; ++value) {
    const char* sentence = zipcclGetErrorString(static_cast<zipcclResult_t>(value));
    ASSERT_NE(sentence, nullptr);
    EXPECT_TRUE(sentences.insert(sentence).second) << sentence;
  }
  EXPECT_STREQ(zipcclGetErrorString(zipcclNumResults), "unknown result code");
}

TEST(Library, WithoutNcclThereIsNothingToWrap) {
  int place = 0;
  auto* const nccl = reinterpret_cast<ncclComm*>(&place);
  auto* comm = reinterpret_cast<zipcclComm_t>(&place);
  EXPECT_EQ(wrappedByC(&comm, nccl), zipcclSystemError);
  EXPECT_EQ(comm, nullptr);
  EXPECT_NE(std::string(zipcclGetLastError(nullptr)).find("loaded no NCCL"), std::string::npos);
}

}  // namespace
