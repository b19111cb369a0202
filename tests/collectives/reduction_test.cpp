// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of reductions against a reference that is written another way, bit for bit: every
// number of the 16-bit datatypes, every operation, one to eight addends.

#include "collectives/reduction.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>
#include <zipccl/codec.hpp>

#include "reference_reduction.hpp"
#include "support/seeded_test.hpp"
#include "tensors.hpp"

namespace zipccl::collectives {
namespace {

using testing::Content;
using testing::preMulSum;
using testing::referenceReduction;

constexpr Datatype kReducible[] = {Datatype::kInt8,    Datatype::kUint8,   Datatype::kInt32,
                                   Datatype::kUint32,  Datatype::kInt64,   Datatype::kUint64,
                                   Datatype::kFloat16, Datatype::kFloat32, Datatype::kFloat64,
                                   Datatype::kBfloat16};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax,
                             ReduceOp::kMin, ReduceOp::kAvg,  ReduceOp::kPreMulSum};

class ReductionTest : public zipccl::testing::SeededTest {
 protected:
  /// Numbers near each other, so that sums round, and now and then any bits.
  std::vector<std::byte> addend(Datatype datatype, std::size_t count) {
    return testing::makeShard(random_(), 0, datatype, count,
                              random_.chance(0.5) ? Content::kPatchwork : Content::kGaussian);
  }

  void check(Datatype datatype, const Reduction& reduction, std::size_t addendCount,
             std::size_t count) {
    std::vector<std::vector<std::byte>> addends;
    for (std::size_t i = 0; i < addendCount; ++i) addends.push_back(addend(datatype, count));
    const std::vector<std::byte> expected = referenceReduction(datatype, reduction, addends);
    std::vector<const void*> pointers;
    for (const auto& each : addends) pointers.push_back(each.data());

    // Into one of the addends.
    const std::size_t target = random_.below(addendCount);
    reduceElements(datatype, reduction, pointers, count, addends[target].data());
    EXPECT_TRUE(addends[target] == expected)
        << datatypeName(datatype) << ' ' << reduceOpName(reduction.op) << " of " << addendCount;
  }
};

TEST_F(ReductionTest, EveryOperationOnEveryDatatype) {
  for (const Datatype datatype : kReducible) {
    for (const ReduceOp op : kOps) {
      for (const std::size_t addendCount : {1U, 2U, 3U, 4U, 7U, 8U}) {
        const Reduction reduction = op == ReduceOp::kPreMulSum
                                        ? preMulSum(datatype, 3.0 / (1.0 + random_.uniform()))
                                        : Reduction{.op = op};
        check(datatype, reduction, addendCount, random_.below(3000));
      }
    }
  }
}

TEST_F(ReductionTest, ScaledSumsAreTheSameThing) {
  for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat16, Datatype::kFloat32}) {
    for (const std::size_t addendCount : {1U, 2U, 5U}) {
      for (const Reduction& reduction :
           {Reduction{.op = ReduceOp::kSum}, Reduction{.op = ReduceOp::kAvg},
            preMulSum(datatype, 0.37), preMulSum(datatype, 1.0), preMulSum(datatype, -4.0)}) {
        const std::size_t count = 1 + random_.below(2000);
        std::vector<std::vector<std::byte>> addends;
        for (std::size_t i = 0; i < addendCount; ++i) addends.push_back(addend(datatype, count));
        ASSERT_TRUE(isScaledSum(reduction));
        std::vector<codec::Addend> list;
        for (const auto& each : addends) list.push_back({{}, {}, each.data()});
        std::vector<std::byte> got(addends.front().size());
        const float factor = factorOf(reduction, datatype, static_cast<int>(addendCount));
        ASSERT_EQ(codec::decodeReduce(*codedDatatype(datatype), count, list, factor, got).status,
                  codec::DecodeStatus::kOk);
        EXPECT_TRUE(got == referenceReduction(datatype, reduction, addends))
            << datatypeName(datatype) << ' ' << reduceOpName(reduction.op) << " of " << addendCount;
      }
    }
  }
}

TEST_F(ReductionTest, OneAddendGivesEveryNumberBack) {
  for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat16}) {
    std::vector<std::uint16_t> all(65536);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    std::vector<std::uint16_t> got(all.size());
    const void* const addend = all.data();
    reduceElements(datatype, {}, {&addend, 1}, all.size(), got.data());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool isNan = std::isnan(testing::valueOf(datatype, all[i]));
      ASSERT_EQ(got[i], isNan ? 0x7FFF : all[i]) << datatypeName(datatype);
    }
  }
}

TEST_F(ReductionTest, SumsOfTwoAreTheNearestNumbers) {
  for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat16}) {
    for (int round = 0; round < 200'000; ++round) {
      // Exponents close to each other: a sum that fp32 holds exactly is rounded once.
      const auto a = static_cast<std::uint16_t>(random_());
      const auto b = static_cast<std::uint16_t>(a + random_.below(4096));
      const double exact = testing::valueOf(datatype, a) + testing::valueOf(datatype, b);
      const void* const addends[] = {&a, &b};
      std::uint16_t got = 0;
      reduceElements(datatype, {}, addends, 1, &got);
      ASSERT_EQ(got, testing::nearestNumber(datatype, static_cast<float>(exact)))
          << datatypeName(datatype) << ' ' << a << " + " << b;
    }
  }
}

TEST_F(ReductionTest, FactorsAreNumbersOfTheDatatype) {
  EXPECT_EQ(factorOf({.op = ReduceOp::kAvg}, Datatype::kBfloat16, 3), 0.333984375F);
  EXPECT_EQ(factorOf({.op = ReduceOp::kAvg}, Datatype::kFloat32, 3), 1.0F / 3.0F);
  EXPECT_EQ(factorOf({.op = ReduceOp::kAvg}, Datatype::kFloat16, 4), 0.25F);
  EXPECT_EQ(factorOf({.op = ReduceOp::kSum}, Datatype::kBfloat16, 3), 1.0F);
  EXPECT_EQ(factorOf(preMulSum(Datatype::kBfloat16, 0.1), Datatype::kBfloat16, 3), 0.10009765625F);
}

TEST_F(ReductionTest, MinusZeroAloneStays) {
  const std::uint16_t minusZero = 0x8000;
  const void* const addends[] = {&minusZero, &minusZero};
  std::uint16_t got = 0;
  reduceElements(Datatype::kBfloat16, {}, {addends, 1}, 1, &got);
  EXPECT_EQ(got, 0x8000);
  reduceElements(Datatype::kBfloat16, {}, addends, 1, &got);
  EXPECT_EQ(got, 0x8000);
}

}  // namespace
}  // namespace zipccl::collectives
