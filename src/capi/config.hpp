// SPDX-License-Identifier: Apache-2.0
//
// zipcclConfig_t and the environment, together the settings of one communicator.

#pragma once

#include <zipccl/zipccl.h>

#include "base/settings.hpp"
#include "collectives/communicator.hpp"

namespace zipccl::capi {

/// The settings that hold: fields of `config` that are set, else those of `environment`. `config`
/// may be null. Throws Error(kInvalidArgument), naming field, value and expectation, for a config
/// that was not made by its initializer or has a value that is not accepted.
[[nodiscard]] collectives::CommunicatorSettings resolveSettings(const zipcclConfig_t* config,
                                                                const Settings& environment);

}  // namespace zipccl::capi
