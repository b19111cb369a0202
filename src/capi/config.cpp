// SPDX-License-Identifier: Apache-2.0
//
// zipcclConfig_t and the environment.

#include "capi/config.hpp"

#include <cstddef>
#include <cstring>

#include "base/error.hpp"

namespace zipccl::capi {
namespace {

static_assert(static_cast<int>(StrategyChoice::kAuto) == zipcclStrategyAuto);
static_assert(static_cast<int>(StrategyChoice::kNative) == zipcclStrategyNative);
static_assert(static_cast<int>(StrategyChoice::kStaged) == zipcclStrategyStaged);

/// The caller's config in this library's size: what an older caller does not have is unset.
zipcclConfig_t readConfig(const zipcclConfig_t* config) {
  zipcclConfig_t read = ZIPCCL_CONFIG_INITIALIZER;
  if (config == nullptr) return read;
  expects(config->size >= offsetof(zipcclConfig_t, strategy) && config->size <= sizeof(read),
          "config.size is ", config->size,
          "; ZIPCCL_CONFIG_INITIALIZER of a header up to this "
          "library's makes it ",
          sizeof(read), " at most");
  expects(config->magic == ZIPCCL_CONFIG_MAGIC, "config.magic is ", config->magic,
          "; ZIPCCL_CONFIG_INITIALIZER makes it ", ZIPCCL_CONFIG_MAGIC);
  std::memcpy(&read, config, config->size);
  return read;
}

constexpr std::int64_t kLongestTimeoutMs = std::int64_t{365} * 86'400 * 1000;

void expectAtLeast(const char* field, std::int64_t value, std::int64_t least) {
  expects(value >= least, "config.", field, " is ", value, "; at least ", least, " is accepted");
}

}  // namespace

collectives::CommunicatorSettings resolveSettings(const zipcclConfig_t* config,
                                                  const Settings& environment) {
  const zipcclConfig_t read = readConfig(config);
  collectives::CommunicatorSettings settings;
  policy::AgreedSettings& agreed = settings.agreed;
  agreed.collectives = environment.collectives;
  agreed.strategy = environment.strategy;
  agreed.reduce = environment.reduce;
  agreed.minBytes = environment.minBytes.value_or(0);
  agreed.maxScratchBytes = environment.maxScratchBytes;
  settings.timeout = environment.timeout;

  if (read.strategy != ZIPCCL_CONFIG_UNDEF_INT) {
    expects(read.strategy >= 0 && read.strategy < zipcclNumStrategies, "config.strategy is ",
            read.strategy, "; 0 (auto), 1 (native) and 2 (staged) are accepted");
    agreed.strategy = static_cast<StrategyChoice>(read.strategy);
  }
  if (read.checksum != ZIPCCL_CONFIG_UNDEF_INT) {
    expects(read.checksum == 0 || read.checksum == 1, "config.checksum is ", read.checksum,
            "; 0 and 1 are accepted");
    agreed.checksum = read.checksum == 1;
  }
  if (read.minBytes != ZIPCCL_CONFIG_UNDEF_INT64) {
    expectAtLeast("minBytes", read.minBytes, 0);
    agreed.minBytes = static_cast<std::uint64_t>(read.minBytes);
  }
  if (read.maxScratchBytes != ZIPCCL_CONFIG_UNDEF_INT64) {
    expectAtLeast("maxScratchBytes", read.maxScratchBytes, 0);
    agreed.maxScratchBytes = static_cast<std::uint64_t>(read.maxScratchBytes);
  }
  if (read.timeoutMs != ZIPCCL_CONFIG_UNDEF_INT64) {
    expectAtLeast("timeoutMs", read.timeoutMs, 0);
    expects(read.timeoutMs <= kLongestTimeoutMs, "config.timeoutMs is ", read.timeoutMs,
            "; at most ", kLongestTimeoutMs, " is accepted; 0 is forever");
    settings.timeout = std::chrono::milliseconds(read.timeoutMs);
  }
  if (environment.isDisabled) agreed.strategy = StrategyChoice::kNative;
  return settings;
}

collectives::CommunicatorSettings resolveNcclSettings(const zipcclConfig_t* config,
                                                      const Settings& environment) {
  collectives::CommunicatorSettings settings = resolveSettings(config, environment);
  expects(!settings.agreed.checksum, "config.checksum is 1; over NCCL frames have none");
  settings.agreed.verifyEvery = environment.verifyEvery;
  settings.tuneFile = environment.tuneFile;
  return settings;
}

std::uint64_t emulatedLink(const zipcclConfig_t* config) {
  const std::int64_t bytesPerSecond = readConfig(config).emulatedLinkBytesPerSecond;
  if (bytesPerSecond == ZIPCCL_CONFIG_UNDEF_INT64) return 0;
  expectAtLeast("emulatedLinkBytesPerSecond", bytesPerSecond, 0);
  return static_cast<std::uint64_t>(bytesPerSecond);
}

}  // namespace zipccl::capi
