// SPDX-License-Identifier: Apache-2.0
//
// zipcclConfig_t and the environment, together the settings of one communicator.

#pragma once

#include <zipccl/zipccl.h>

#include <cstdint>

#include "base/settings.hpp"
#include "collectives/communicator.hpp"

namespace zipccl::capi {

/// The settings that hold: fields of `config` that are set, else those of `environment`. `config`
/// may be null. Throws Error(kInvalidArgument), naming field, value and expectation, for a config
/// that was not made by its initializer or has a value that is not accepted.
[[nodiscard]] collectives::CommunicatorSettings resolveSettings(const zipcclConfig_t* config,
                                                                const Settings& environment);

/// The same for a communicator over NCCL. Frames that a GPU makes have no checksum: throws where
/// `config` asks for one.
[[nodiscard]] collectives::CommunicatorSettings resolveNcclSettings(const zipcclConfig_t* config,
                                                                    const Settings& environment);

/// The emulated link of local communicators, bytes a second; 0 where there is none. Throws as
/// above.
[[nodiscard]] std::uint64_t emulatedLink(const zipcclConfig_t* config);

}  // namespace zipccl::capi
