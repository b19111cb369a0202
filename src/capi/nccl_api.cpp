// SPDX-License-Identifier: Apache-2.0
//
// The table that is kept.

#include "capi/nccl_api.hpp"

#include <atomic>
#include <memory>

#include "base/error.hpp"
#include "image/nccl_image.hpp"

namespace zipccl::capi {
namespace {

std::atomic<const zipcclNcclApi*> keptApi = nullptr;

}  // namespace

const zipcclNcclApi& keepNcclApi(const zipcclNcclApi& api) {
  expects(api.size == sizeof(zipcclNcclApi), "api.size is ", api.size, ", not ",
          sizeof(zipcclNcclApi));
  const zipcclNcclApi* kept = keptNcclApi();
  if (kept != nullptr) return *kept;
  auto made = std::make_unique<const zipcclNcclApi>(api);
  if (!keptApi.compare_exchange_strong(kept, made.get(), std::memory_order_acq_rel)) return *kept;
  return *made.release();
}

const zipcclNcclApi* keptNcclApi() noexcept { return keptApi.load(std::memory_order_acquire); }

const zipcclNcclApi& ncclApiOfProcess() {
  if (const zipcclNcclApi* const kept = keptNcclApi()) return *kept;
  image::NcclImage image;
  expects(image::findLoadedNccl(image), ErrorCode::kSystemError,
          "this process has loaded no NCCL whose functions can be found");
  zipcclNcclApi api{};
  expects(image::takeNcclApi(image, api), ErrorCode::kSystemError, image.path,
          " is no NCCL that ZipCCL knows");
  return keepNcclApi(api);
}

}  // namespace zipccl::capi
