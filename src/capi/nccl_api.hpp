// SPDX-License-Identifier: Apache-2.0
//
// The functions of the one NCCL of this process.

#pragma once

#include <zipccl/nccl_engine.h>

namespace zipccl::capi {

/// Keeps a copy of the first table that comes, by whichever thread, for as long as the process
/// lives: there is one image. Returns what is kept. Throws Error(kInvalidArgument) for a table of
/// another version.
const zipcclNcclApi& keepNcclApi(const zipcclNcclApi& api);

/// What is kept, or null.
[[nodiscard]] const zipcclNcclApi* keptNcclApi() noexcept;

/// What is kept, else the functions of the NCCL that the process has loaded, which are kept then.
/// Throws Error(kSystemError) where there is none.
[[nodiscard]] const zipcclNcclApi& ncclApiOfProcess();

}  // namespace zipccl::capi
