// SPDX-License-Identifier: Apache-2.0
//
// Settings: every environment variable of ZipCCL in one struct, read once. One table holds names,
// accepted values, defaults and help, for parsing, for `zipccl doctor` and for the documents.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/collective_kind.hpp"

namespace zipccl {

enum class LogLevel : std::uint8_t { kNone, kVersion, kWarn, kInfo, kTrace };

/// Parts of the library that log; a set of them is a mask of these bits.
enum class LogSubsystem : std::uint32_t {
  kInit = 1U << 0,       ///< start, handshake, end
  kEnv = 1U << 1,        ///< settings
  kColl = 1U << 2,       ///< every collective call
  kCodec = 1U << 3,      ///< encoding and decoding
  kTransport = 1U << 4,  ///< ranks, messages, failures
  kTuning = 1U << 5,     ///< the policy's decisions
  kGpu = 1U << 6,        ///< devices, kernels, memory
  kShim = 1U << 7,       ///< the interposer
};
inline constexpr std::uint32_t kAllLogSubsystems = (1U << 8) - 1;

/// ZIPCCL_REDUCE: whether reductions may travel compressed.
enum class ReduceMode : std::uint8_t { kAuto, kOn, kOff };

/// ZIPCCL_STRATEGY: what the policy may choose, or what is forced.
enum class StrategyChoice : std::uint8_t { kAuto, kNative, kStaged };

/// ZIPCCL_HOST_CODEC: which implementation of the host codec runs.
enum class HostCodecChoice : std::uint8_t { kAuto, kScalar, kAvx2, kAvx512 };

/// The values in force. settingSpecs() tells what each is for.
struct Settings {
  bool isDisabled = false;
  LogLevel logLevel = LogLevel::kWarn;
  std::uint32_t logSubsystems = static_cast<std::uint32_t>(LogSubsystem::kInit) |
                                static_cast<std::uint32_t>(LogSubsystem::kEnv);
  std::string logFile;
  CollectiveSet collectives = CollectiveSet::all();
  std::optional<std::uint64_t> minBytes;
  ReduceMode reduce = ReduceMode::kAuto;
  StrategyChoice strategy = StrategyChoice::kAuto;
  std::uint64_t maxScratchBytes = std::uint64_t{256} << 20;
  std::string pluginDirectory;
  std::string tuneFile;
  HostCodecChoice hostCodec = HostCodecChoice::kAuto;
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  std::uint32_t verifyEvery = 0;
  std::string statisticsFile;
};

/// One environment variable.
struct SettingSpec {
  std::string_view name;          ///< `ZIPCCL_STRATEGY`
  std::string_view values;        ///< what is accepted: `auto|native|staged`
  std::string_view defaultValue;  ///< as it would be written, or in words in parentheses
  std::string_view help;          ///< one or two sentences

  /// Stores `value`, which is not empty. Returns false, with `settings` unchanged, if it is not
  /// accepted.
  bool (*apply)(Settings& settings, std::string_view value);

  /// The value in force, as it would be written; empty where nothing is set.
  std::string (*show)(const Settings& settings);
};

/// All variables, in the order in which documents list them.
[[nodiscard]] std::span<const SettingSpec> settingSpecs() noexcept;

/// Settings, and what was wrong with the variables they were made from: one sentence each, naming
/// variable, value, what is accepted and what is used instead.
struct ParsedSettings {
  Settings settings;
  std::vector<std::string> problems;
};

/// Makes settings from variables. Where a value is not accepted the default stays and a problem is
/// noted; so it is for a variable that starts with ZIPCCL_ and is none of settingSpecs(), but for
/// those of tests, ZIPCCL_TEST_. An empty value counts as unset; other variables are ignored. Never
/// throws but for lack of memory.
[[nodiscard]] ParsedSettings parseSettings(const std::map<std::string, std::string>& variables);

/// Variables without those that name what this process then opens or loads: not a thing that
/// whoever starts a program with more rights than his own may choose.
[[nodiscard]] std::map<std::string, std::string> withoutFiles(
    std::map<std::string, std::string> variables);

/// parseSettings() of the process's environment; withoutFiles() where the process has more rights
/// than who started it.
[[nodiscard]] ParsedSettings readEnvironment();

/// The settings of this process: the environment as it was at the first call of this function or of
/// the log. Never destroyed. Problems were written to the log as warnings then.
[[nodiscard]] const Settings& settings();

/// Expands %h to the host's name, %p to the process's id and %% to a percent sign; any other use of
/// % stays as it is.
[[nodiscard]] std::string expandFileName(std::string_view pattern);

/// The host's name up to its first dot.
[[nodiscard]] std::string shortHostName();

[[nodiscard]] std::string_view logLevelName(LogLevel level) noexcept;
[[nodiscard]] std::string_view logSubsystemName(LogSubsystem subsystem) noexcept;
[[nodiscard]] std::string_view reduceModeName(ReduceMode mode) noexcept;
[[nodiscard]] std::string_view strategyChoiceName(StrategyChoice choice) noexcept;
[[nodiscard]] std::string_view hostCodecChoiceName(HostCodecChoice choice) noexcept;

}  // namespace zipccl
