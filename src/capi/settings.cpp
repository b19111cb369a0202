// SPDX-License-Identifier: Apache-2.0
//
// The table of settings, for C.

#include "base/settings.hpp"

#include <zipccl/settings.h>

#include <cstddef>
#include <exception>
#include <string>

int zipcclGetSetting(int index, zipcclSettingInfo* info) {
  const auto specs = zipccl::settingSpecs();
  if (info == nullptr || index < 0 || static_cast<std::size_t>(index) >= specs.size()) return 0;
  try {
    // The names are literals, which end with a zero.
    const zipccl::SettingSpec& spec = specs[static_cast<std::size_t>(index)];
    thread_local std::string value;
    value = spec.show(zipccl::settings());
    *info = {spec.name.data(), spec.values.data(), spec.defaultValue.data(), spec.help.data(),
             value.c_str()};
    return 1;
  } catch (const std::exception&) {
    return 0;
  }
}
