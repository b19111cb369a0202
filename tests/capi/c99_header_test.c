/* SPDX-License-Identifier: Apache-2.0
 *
 * The public C headers compile as plain C99, and their constants and structs mean there what they
 * mean in C++.
 */

/* As nccl.h has it, which a program may include before or after. */
typedef struct ncclComm* ncclComm_t;

#include <zipccl/zipccl.h>
#include <zipccl/zipccl_nccl.h>

zipcclResult_t wrappedByC(zipcclComm_t* comm, ncclComm_t nccl);
int versionCodeSeenByC(void);
int versionCodeLoadedByC(void);
zipcclConfig_t configMadeByC(void);
zipcclCommStats_t statsMadeByC(void);

int versionCodeSeenByC(void) { return ZIPCCL_VERSION_CODE; }

int versionCodeLoadedByC(void) {
  int version = -1;
  return zipcclGetVersion(&version) == zipcclSuccess ? version : -1;
}

zipcclConfig_t configMadeByC(void) {
  zipcclConfig_t config = ZIPCCL_CONFIG_INITIALIZER;
  return config;
}

zipcclCommStats_t statsMadeByC(void) {
  zipcclCommStats_t stats = ZIPCCL_COMM_STATS_INITIALIZER;
  return stats;
}

zipcclResult_t wrappedByC(zipcclComm_t* comm, ncclComm_t nccl) {
  return zipcclCommInitNccl(comm, nccl, NULL);
}
