// SPDX-License-Identifier: Apache-2.0
//
// The traps in a program that is linked against the interposer and NCCL: main() is GoogleTest's.

namespace zipccl::testing {

/// How the program came to NCCL, for messages.
extern const char* const kVariant;
const char* const kVariant = "linked";

}  // namespace zipccl::testing
