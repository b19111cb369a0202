// SPDX-License-Identifier: Apache-2.0
//
// A library that a plugin is linked to and that the loader cannot find, like an MPI that is not
// installed.

extern "C" __attribute__((visibility("default"))) int zipcclAbsentMpi() { return 1; }
