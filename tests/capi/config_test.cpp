// SPDX-License-Identifier: Apache-2.0
//
// Settings of a communicator: the config before the environment before the defaults.

#include "capi/config.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace zipccl::capi {
namespace {

using collectives::CommunicatorSettings;

Settings environment() {
  Settings settings;
  settings.strategy = StrategyChoice::kStaged;
  settings.minBytes = 1234;
  settings.maxScratchBytes = 5678;
  settings.timeout = std::chrono::seconds(9);
  settings.collectives.erase(CollectiveKind::kAllReduce);
  return settings;
}

zipcclConfig_t defaultConfig() {
  const zipcclConfig_t config = ZIPCCL_CONFIG_INITIALIZER;
  return config;
}

TEST(Config, UnsetFieldsTakeTheEnvironment) {
  const zipcclConfig_t config = defaultConfig();
  for (const zipcclConfig_t* given : {&config, static_cast<const zipcclConfig_t*>(nullptr)}) {
    const CommunicatorSettings settings = resolveSettings(given, environment());
    EXPECT_EQ(settings.agreed.strategy, StrategyChoice::kStaged);
    EXPECT_FALSE(settings.agreed.checksum);
    EXPECT_EQ(settings.agreed.minBytes, 1234U);
    EXPECT_EQ(settings.agreed.maxScratchBytes, 5678U);
    EXPECT_EQ(settings.agreed.collectives, environment().collectives);
    EXPECT_EQ(settings.timeout, std::chrono::seconds(9));
    EXPECT_FALSE(settings.profile);
  }
}

TEST(Config, DefaultsAreThoseOfTheHeader) {
  const CommunicatorSettings settings = resolveSettings(nullptr, Settings{});
  EXPECT_EQ(settings.agreed.strategy, StrategyChoice::kAuto);
  EXPECT_FALSE(settings.agreed.checksum);
  EXPECT_EQ(settings.agreed.minBytes, 0U);
  EXPECT_EQ(settings.agreed.maxScratchBytes, 256U << 20);
  EXPECT_EQ(settings.timeout, std::chrono::minutes(30));
}

TEST(Config, SetFieldsWin) {
  zipcclConfig_t config = defaultConfig();
  config.strategy = zipcclStrategyNative;
  config.checksum = 1;
  config.minBytes = 1;
  config.maxScratchBytes = 2;
  config.timeoutMs = 3;
  const CommunicatorSettings settings = resolveSettings(&config, environment());
  EXPECT_EQ(settings.agreed.strategy, StrategyChoice::kNative);
  EXPECT_TRUE(settings.agreed.checksum);
  EXPECT_EQ(settings.agreed.minBytes, 1U);
  EXPECT_EQ(settings.agreed.maxScratchBytes, 2U);
  EXPECT_EQ(settings.timeout, std::chrono::milliseconds(3));
}

TEST(Config, DisableWinsOverEverything) {
  Settings disabled = environment();
  disabled.isDisabled = true;
  zipcclConfig_t config = defaultConfig();
  config.strategy = zipcclStrategyStaged;
  EXPECT_EQ(resolveSettings(&config, disabled).agreed.strategy, StrategyChoice::kNative);
}

TEST(Config, RejectsWhatItDoesNotKnowAndSaysWhy) {
  const auto rejected = [](auto change) -> std::string {
    zipcclConfig_t config = defaultConfig();
    change(config);
    try {
      static_cast<void>(resolveSettings(&config, Settings{}));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.message();
    }
    return "accepted";
  };
  using C = zipcclConfig_t;
  EXPECT_EQ(rejected([](C& c) { c.strategy = 3; }),
            "config.strategy is 3; 0 (auto), 1 (native) and 2 (staged) are accepted");
  EXPECT_EQ(rejected([](C& c) { c.strategy = -1; }),
            "config.strategy is -1; 0 (auto), 1 (native) and 2 (staged) are accepted");
  EXPECT_EQ(rejected([](C& c) { c.checksum = 2; }), "config.checksum is 2; 0 and 1 are accepted");
  EXPECT_EQ(rejected([](C& c) { c.minBytes = -1; }),
            "config.minBytes is -1; at least 0 is accepted");
  EXPECT_EQ(rejected([](C& c) { c.maxScratchBytes = -5; }),
            "config.maxScratchBytes is -5; at least 0 is accepted");
  EXPECT_EQ(rejected([](C& c) { c.timeoutMs = -5; }),
            "config.timeoutMs is -5; at least 0 is accepted");
  EXPECT_EQ(rejected([](C& c) { c.timeoutMs = 31'536'000'000; }), "accepted") << "a year";
  EXPECT_EQ(rejected([](C& c) { c.timeoutMs = 31'536'000'001; }),
            "config.timeoutMs is 31536000001; at most 31536000000 is accepted; 0 is forever");
  zipcclConfig_t link = ZIPCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(emulatedLink(nullptr), 0U);
  EXPECT_EQ(emulatedLink(&link), 0U);
  link.emulatedLinkBytesPerSecond = 250'000'000;
  EXPECT_EQ(emulatedLink(&link), 250'000'000U);
  link.emulatedLinkBytesPerSecond = -1;
  EXPECT_THROW(static_cast<void>(emulatedLink(&link)), Error);
  EXPECT_EQ(rejected([](C& c) { c.magic = 0; }).substr(0, 17), "config.magic is 0");
  EXPECT_EQ(rejected([](C& c) { c.size = 0; }).substr(0, 16), "config.size is 0");
  EXPECT_EQ(rejected([](C& c) { c.size = sizeof(C) + 8; }).substr(0, 15), "config.size is ");
}

TEST(Config, AcceptsAnOlderAndShorterOne) {
  constexpr std::size_t kOldBytes = offsetof(zipcclConfig_t, minBytes);
  zipcclConfig_t config = defaultConfig();
  config.size = kOldBytes;
  config.strategy = zipcclStrategyNative;
  // Exactly as many bytes as it claims, so that the address sanitizer sees a read behind them.
  std::vector<std::byte> old(kOldBytes);
  std::memcpy(old.data(), &config, kOldBytes);
  const CommunicatorSettings settings =
      resolveSettings(reinterpret_cast<const zipcclConfig_t*>(old.data()), environment());
  EXPECT_EQ(settings.agreed.strategy, StrategyChoice::kNative);
  EXPECT_EQ(settings.agreed.minBytes, 1234U);
}

}  // namespace
}  // namespace zipccl::capi
