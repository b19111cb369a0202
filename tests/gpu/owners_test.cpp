// SPDX-License-Identifier: Apache-2.0
//
// The owners of GPU resources: what they own, what moves, and what they say when CUDA refuses.

#include "gpu/owners.hpp"

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "gpu/gpu_testing.hpp"

namespace zipccl::gpu::testing {
namespace {

template <typename Owner>
constexpr bool kIsMoveOnly =
    std::is_nothrow_move_constructible_v<Owner>&& std::is_nothrow_move_assignable_v<Owner> &&
    !std::is_copy_constructible_v<Owner> && !std::is_copy_assignable_v<Owner>;
static_assert(kIsMoveOnly<DeviceBuffer> && kIsMoveOnly<Stream> && kIsMoveOnly<Event> &&
              kIsMoveOnly<Graph>);

TEST(Owners, ABufferOfNothingNeedsNoDevice) {
  EXPECT_EQ(DeviceBuffer().data(), nullptr);
  const DeviceBuffer none(0);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(none.bytes(), 0U);
}

TEST(Owners, ABufferThatCannotBeNamesItsBytes) {
  // Without a device no buffer can be.
  constexpr std::size_t kTooManyBytes = std::size_t{1} << 56;
  try {
    const DeviceBuffer buffer(kTooManyBytes);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnhandledCudaError);
    EXPECT_NE(error.message().find(std::to_string(kTooManyBytes)), std::string::npos)
        << error.message();
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) return;
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the failure is left for the next call";
}

class OwnersOnDevice : public DeviceTest {};

TEST_F(OwnersOnDevice, BuffersMove) {
  DeviceBuffer first(1000);
  std::byte* const memory = first.data();
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
  DeviceBuffer second(std::move(first));
  EXPECT_EQ(second.data(), memory);
  EXPECT_EQ(second.bytes(), 1000U);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move): what moving leaves
  EXPECT_EQ(first.bytes(), 0U);
  first = DeviceBuffer(10);
  first = std::move(second);
  EXPECT_EQ(first.data(), memory);
  EXPECT_EQ(first.bytes(), 1000U);
  EXPECT_EQ(second.bytes(), 0U);  // NOLINT(bugprone-use-after-move)
}

TEST_F(OwnersOnDevice, BuffersGiveTheirMemoryBack) {
  // Forty times half of what is free: this only works when it comes back.
  std::size_t freeBytes = 0;
  std::size_t totalBytes = 0;
  check(cudaMemGetInfo(&freeBytes, &totalBytes), "asking for free memory");
  for (int i = 0; i < 40; ++i) {
    DeviceBuffer buffer(freeBytes / 2);
    const DeviceBuffer moved(std::move(buffer));
  }
}

TEST_F(OwnersOnDevice, StreamsAndEventsMove) {
  Stream first;
  cudaStream_t const handle = first.get();
  ASSERT_NE(handle, nullptr);
  const Stream second(std::move(first));
  EXPECT_EQ(second.get(), handle);
  EXPECT_EQ(first.get(), nullptr);  // NOLINT(bugprone-use-after-move): what moving leaves
  Event start(Event::Timing::kOn);
  cudaEvent_t const event = start.get();
  const Event moved(std::move(start));
  EXPECT_EQ(moved.get(), event);
  EXPECT_EQ(start.get(), nullptr);  // NOLINT(bugprone-use-after-move)
}

TEST_F(OwnersOnDevice, EventsTellTheTimeBetween) {
  const DeviceBuffer buffer(64U << 20);
  const Event start(Event::Timing::kOn);
  const Event end(Event::Timing::kOn);
  start.record(stream().get());
  check(cudaMemsetAsync(buffer.data(), 1, buffer.bytes(), stream().get()), "filling");
  end.record(stream().get());
  end.synchronize();
  const double elapsedUs = end.elapsedUsSince(start);
  EXPECT_GT(elapsedUs, 1.0);  // no memory takes 64 MiB faster
  EXPECT_LT(elapsedUs, 1e6);
  const Event untimed;
  untimed.record(stream().get());
  untimed.synchronize();
  EXPECT_THROW((void)untimed.elapsedUsSince(start), Error);
  static_cast<void>(cudaGetLastError());
}

}  // namespace
}  // namespace zipccl::gpu::testing
