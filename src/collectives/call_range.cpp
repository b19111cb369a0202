// SPDX-License-Identifier: Apache-2.0
//
// Ranges of NVTX, in a domain of their own. NVTX gives none out where no profiler listens.

#include "collectives/call_range.hpp"

#include <array>
#include <cstdio>

#if defined(ZIPCCL_HAS_NVTX)
#include <nvtx3/nvToolsExt.h>
#endif

namespace zipccl::collectives {
namespace {

using Name = std::array<char, 128>;

#if defined(ZIPCCL_HAS_NVTX)
nvtxDomainHandle_t domain() noexcept {
  static const nvtxDomainHandle_t made = nvtxDomainCreateA("ZipCCL");
  return made;
}
bool isProfiled() noexcept { return domain() != nullptr; }
#else
constexpr bool isProfiled() noexcept { return false; }
#endif

int widthOf(std::string_view text) noexcept { return static_cast<int>(text.size()); }

}  // namespace

CallRange::CallRange(CollectiveKind collective, Datatype datatype, std::uint64_t elementCount,
                     policy::Strategy strategy) noexcept {
  if (!isProfiled()) return;
  const std::string_view kind = collectiveName(collective);
  const std::string_view type = datatypeName(datatype);
  Name name{};
  std::snprintf(name.data(), name.size(), "ZipCCL %.*s %.*s %llu %s", widthOf(kind), kind.data(),
                widthOf(type), type.data(), static_cast<unsigned long long>(elementCount),
                policy::name(strategy));
  begin(name.data());
}

CallRange::CallRange(std::uint64_t messageCount) noexcept {
  if (!isProfiled()) return;
  Name name{};
  std::snprintf(name.data(), name.size(), "ZipCCL SendRecv, %llu messages",
                static_cast<unsigned long long>(messageCount));
  begin(name.data());
}

#if defined(ZIPCCL_HAS_NVTX)
void CallRange::begin(const char* name) noexcept {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  id_ = nvtxDomainRangeStartEx(domain(), &attributes);
}

void CallRange::end() const noexcept { nvtxDomainRangeEnd(domain(), id_); }
#else
void CallRange::begin(const char* /*name*/) noexcept {}
void CallRange::end() const noexcept {}
#endif

}  // namespace zipccl::collectives
