// SPDX-License-Identifier: Apache-2.0
//
// The settings of the library, one after the other, for programs that show them. C99 and C++.

#ifndef ZIPCCL_SETTINGS_H
#define ZIPCCL_SETTINGS_H

#if !defined(ZIPCCL_API) && defined(__GNUC__)
#define ZIPCCL_API __attribute__((visibility("default")))
#elif !defined(ZIPCCL_API)
#define ZIPCCL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// One environment variable. The strings live until the calling thread asks again.
typedef struct {
  const char* name;          ///< `ZIPCCL_STRATEGY`
  const char* values;        ///< what is accepted
  const char* defaultValue;  ///< as it would be written, or in words in parentheses
  const char* help;          ///< one or two sentences
  const char* value;         ///< in force in this process; empty where nothing is set
} zipcclSettingInfo;

/// Fills `info` with setting number `index`, counted from 0. Returns 1, or 0 where there is none of
/// that number, or memory ran out.
ZIPCCL_API int zipcclGetSetting(int index, zipcclSettingInfo* info);

#ifdef __cplusplus
}
#endif

#endif
