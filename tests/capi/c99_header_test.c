/* SPDX-License-Identifier: Apache-2.0
 *
 * The public C headers compile as plain C99, and their constants mean there what they mean in C++.
 */

#include <zipccl/zipccl.h>

int versionCodeSeenByC(void);
int versionCodeLoadedByC(void);

int versionCodeSeenByC(void) { return ZIPCCL_VERSION_CODE; }

int versionCodeLoadedByC(void) {
  int version = -1;
  return zipcclGetVersion(&version) == zipcclSuccess ? version : -1;
}
