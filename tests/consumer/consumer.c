/* SPDX-License-Identifier: Apache-2.0
 *
 * A user's C99 program, compiled with what pkg-config says of the installed package.
 */

#include <stdio.h>
#include <zipccl/zipccl.h>

int main(void) {
  int version = 0;
  if (zipcclGetVersion(&version) != zipcclSuccess || version != ZIPCCL_VERSION_CODE) {
    fprintf(stderr, "compiled against %d, runs with %d\n", ZIPCCL_VERSION_CODE, version);
    return 1;
  }
  if (zipcclGetVersion(NULL) != zipcclInvalidArgument) {
    fprintf(stderr, "%s\n", zipcclGetErrorString(zipcclInvalidArgument));
    return 1;
  }
  printf("zipccl %s\n", ZIPCCL_VERSION_STRING);
  return 0;
}
