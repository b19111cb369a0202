// SPDX-License-Identifier: Apache-2.0
//
// The table of calls.

#include "collectives/call_table.hpp"

#include <zipccl/version.h>

#include <algorithm>
#include <charconv>

namespace zipccl::collectives {

SignalSafeText& SignalSafeText::operator<<(std::string_view text) noexcept {
  const std::size_t fits = std::min(text.size(), memory_.size() - used_);
  std::copy_n(text.data(), fits, memory_.data() + used_);
  used_ += fits;
  isWhole_ = isWhole_ && fits == text.size();
  return *this;
}

SignalSafeText& SignalSafeText::operator<<(std::uint64_t number) noexcept {
  char digits[20];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), number);
  return *this << std::string_view(digits, static_cast<std::size_t>(end.ptr - digits));
}

SignalSafeText& SignalSafeText::operator<<(std::int64_t number) noexcept {
  if (number >= 0) return *this << static_cast<std::uint64_t>(number);
  return *this << "-" << -static_cast<std::uint64_t>(number);
}

SignalSafeText& SignalSafeText::ratio(std::uint64_t numerator, std::uint64_t denominator) noexcept {
  const std::uint64_t rest = numerator % denominator;
  // The rest may be large; its thousandths of the denominator need not be exact then.
  const std::uint64_t part = denominator >= (std::uint64_t{1} << 53) ? rest / (denominator / 1000)
                                                                     : rest * 1000 / denominator;
  const std::uint64_t thousandths = std::min<std::uint64_t>(part, 999);
  return *this << numerator / denominator << "." << (thousandths < 100 ? "0" : "")
               << (thousandths < 10 ? "0" : "") << thousandths;
}

SignalSafeText& SignalSafeText::quoted(std::string_view text) noexcept {
  *this << "\"";
  for (const char& each : text) {
    const bool isPlain = each >= ' ' && each <= '~' && each != '"' && each != '\\';
    *this << (isPlain ? std::string_view(&each, 1) : std::string_view("?"));
  }
  return *this << "\"";
}

void CallTable::add(const CallOutcome& outcome) noexcept {
  const auto datatype = static_cast<std::size_t>(outcome.datatype);
  if (!outcome.collective || datatype >= kDatatypes) return;
  const bool isStaged = outcome.decision.strategy == policy::Strategy::kStaged;
  Row& row = rows_[static_cast<std::size_t>(*outcome.collective)][datatype];
  constexpr auto kOrder = std::memory_order_relaxed;
  row.calls.fetch_add(1, kOrder);
  row.inputBytes.fetch_add(outcome.inputBytes, kOrder);
  if (!isStaged) return;
  row.stagedCalls.fetch_add(1, kOrder);
  row.plainBytes.fetch_add(outcome.plainBytes, kOrder);
  row.encodedBytes.fetch_add(outcome.encodedBytes, kOrder);
  const double savedUs = outcome.decision.nativeUs - outcome.decision.stagedUs;
  row.savedNs.fetch_add(static_cast<std::int64_t>(savedUs * 1000.0), kOrder);
}

void CallTable::writeRow(SignalSafeText& out, const Row& row, CollectiveKind collective,
                         Datatype datatype) noexcept {
  constexpr auto kOrder = std::memory_order_relaxed;
  const std::uint64_t calls = row.calls.load(kOrder);
  const std::uint64_t stagedCalls = row.stagedCalls.load(kOrder);
  const std::uint64_t plainBytes = row.plainBytes.load(kOrder);
  const std::uint64_t encodedBytes = row.encodedBytes.load(kOrder);
  constexpr std::int64_t kNsPerUs = 1000;
  out << "    {\"collective\": \"" << collectiveName(collective) << "\", \"datatype\": \""
      << datatypeName(datatype) << "\", \"calls\": " << calls
      << ", \"compressedCalls\": " << stagedCalls << ", \"bytes\": " << row.inputBytes.load(kOrder)
      << ", \"encodedBytes\": " << plainBytes << ", \"wireBytes\": " << encodedBytes
      << ", \"ratio\": ";
  if (encodedBytes == 0) {
    out << "null";
  } else {
    out.ratio(plainBytes, encodedBytes);
  }
  out << ", \"strategy\": \""
      << (stagedCalls == 0 ? "native" : (stagedCalls < calls ? "mixed" : "staged"))
      << "\", \"estimatedSavedUs\": " << row.savedNs.load(kOrder) / kNsPerUs << "}";
}

void CallTable::write(SignalSafeText& out, const CallTableOwner& owner) const noexcept {
  out << "{\n  \"zipccl\": \"" << ZIPCCL_VERSION_STRING << "\",\n  \"host\": ";
  out.quoted(owner.host) << ",\n  \"process\": " << owner.process
                         << ",\n  \"rank\": " << std::int64_t{owner.rank}
                         << ",\n  \"ranks\": " << std::int64_t{owner.rankCount}
                         << ",\n  \"calls\": [";
  bool isFirst = true;
  for (const CollectiveKind collective : kAllCollectiveKinds) {
    for (std::size_t datatype = 0; datatype < kDatatypes; ++datatype) {
      const Row& row = rows_[static_cast<std::size_t>(collective)][datatype];
      if (row.calls.load(std::memory_order_relaxed) == 0) continue;
      out << (isFirst ? "\n" : ",\n");
      writeRow(out, row, collective, static_cast<Datatype>(datatype));
      isFirst = false;
    }
  }
  out << (isFirst ? "]\n}\n" : "\n  ]\n}\n");
}

}  // namespace zipccl::collectives
