// SPDX-License-Identifier: Apache-2.0
//
// The table: a row for each tensor, in the manner of the other tables of the command.

#include <zipccl/version.h>

#include <array>
#include <cstdio>

#include "inspect/report.hpp"
#include "inspect/zstd.hpp"
#include "perf_codec/report.hpp"
#include "support/text.hpp"

namespace zipccl::tools::inspect {
namespace {

using perf_codec::padded;

struct Column {
  const char* title;
  const char* unit;
  std::size_t width;
};

constexpr std::array kColumns = {
    Column{"elements", "", 14},   Column{"dtype", "", 8},       Column{"sigma", "", 10},
    Column{"inside", "(%)", 8},   Column{"bits", "(value)", 8}, Column{"ratio", "", 7},
    Column{"limit", "(bits)", 8}, Column{"tiles", "", 10},      Column{"raw", "", 8},
    Column{"empty", "", 8},       Column{"zero", "code", 8},
};
constexpr Column kZstdColumn = {"zstd -1", "(ratio)", 8};

std::vector<Column> columnsOf(const Report& report) {
  std::vector<Column> columns(kColumns.begin(), kColumns.end());
  if (report.options.usesZstd) columns.push_back(kZstdColumn);
  return columns;
}

std::string ratioText(std::uint64_t over, std::uint64_t under) {
  if (under == 0) return "-";
  return fixed(static_cast<double>(over) / static_cast<double>(under), 3);
}

std::string shortNumber(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

/// The cells that tensors and totals share, from `inside` on.
std::vector<std::string> cellsOf(const Sizes& sizes) {
  if (sizes.elementCount == 0) return std::vector<std::string>(8, "-");
  const std::optional<double> inside = sizes.insideShare();
  return {inside ? fixed(100.0 * *inside, 2) : "-",
          fixed(sizes.bitsPerValue(), 3),
          fixed(sizes.ratio(), 3),
          fixed(sizes.limitPerValue(), 3),
          std::to_string(sizes.tiles),
          std::to_string(sizes.rawTiles),
          std::to_string(sizes.emptyTiles),
          std::to_string(sizes.zeroCodeTiles)};
}

/// One line; `mark` stands before it.
std::string lineOf(const Report& report, char mark, std::vector<std::string> cells,
                   const std::string& last) {
  const std::vector<Column> columns = columnsOf(report);
  std::string line(1, mark);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string& cell = cells.at(i);
    line += cell.size() < columns[i].width ? padded(cell, columns[i].width) : " " + cell;
  }
  line += "  " + last;
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string rowOf(const Report& report, const TensorSummary& tensor) {
  std::vector<std::string> cells = {
      tensor.elementCount ? std::to_string(*tensor.elementCount) : "-", printable(tensor.dtype),
      tensor.hasFrame() ? shortNumber(tensor.sigma) : "-"};
  for (std::string& cell : cellsOf(tensor.sizes)) cells.push_back(std::move(cell));
  if (report.options.usesZstd) cells.push_back(ratioText(tensor.bytes, tensor.zstdBytes));
  return lineOf(report, ' ', std::move(cells), printable(tensor.name, 400));
}

std::string rowOf(const Report& report, const DtypeTotal& total) {
  std::vector<std::string> cells = {std::to_string(total.elementCount), printable(total.dtype), ""};
  for (std::string& cell : cellsOf(total.sizes)) cells.push_back(std::move(cell));
  if (report.options.usesZstd) cells.push_back(ratioText(total.bytes, total.zstdBytes));
  return lineOf(report, '#', std::move(cells),
                "all " + std::to_string(total.tensors) + " of them, " + humanBytes(total.bytes));
}

std::string titles(const Report& report) {
  std::vector<std::string> names;
  std::vector<std::string> units;
  for (const Column& column : columnsOf(report)) {
    names.emplace_back(column.title);
    units.emplace_back(column.unit);
  }
  return lineOf(report, '#', std::move(names), "tensor") +
         lineOf(report, '#', std::move(units), "");
}

std::string head(const Report& report) {
  std::string text =
      "# zipccl " ZIPCCL_VERSION_STRING " inspect: " + std::to_string(report.tensors.size()) +
      (report.tensors.size() == 1 ? " tensor, " : " tensors, ") + humanBytes(report.bytes());
  if (report.leftOut != 0) {
    text += "; " + std::to_string(report.leftOut) + " left out, which --match does not name";
  }
  text += "\n";
  for (const std::string& path : report.paths) text += "# file " + printable(path, 400) + "\n";
  text +=
      "# inside: of the values in tiles with a window, those that a 3-bit code names. bits: a "
      "value's, in a frame\n"
      "# of the whole tensor. limit: what an ideal coder of the exponents would take, with one "
      "table a tensor.\n";
  if (report.options.usesZstd) {
    text += Zstd::version().empty() ? "# zstd -1: not measured, this zipccl was built without it\n"
                                    : "# zstd -1: " + Zstd::version() + ", each MiB by itself\n";
  }
  return text;
}

std::string foot(const Report& report) {
  std::string text;
  bool hasPlain = false;
  std::uint64_t nonFinite = 0;
  for (const DtypeTotal& total : report.totals) {
    text += rowOf(report, total);
    hasPlain = hasPlain || !total.datatype;
  }
  for (const TensorSummary& tensor : report.tensors) nonFinite += tensor.nonFinite;
  if (hasPlain) text += "# only BF16, F16 and F32 are encoded; others travel as they are\n";
  if (nonFinite != 0) {
    text += "# " + std::to_string(nonFinite) +
            " values are infinite or no number; sigma leaves them out\n";
  }
  if (report.bytes() != 0) {
    text += "# " + humanBytes(report.bytes()) + " travel as " + humanBytes(report.wireBytes()) +
            ", ratio " + ratioText(report.bytes(), report.wireBytes()) + "\n";
  }
  return text;
}

}  // namespace

std::uint64_t Report::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const DtypeTotal& total : totals) sum += total.bytes;
  return sum;
}

std::uint64_t Report::wireBytes() const noexcept {
  std::uint64_t sum = 0;
  for (const DtypeTotal& total : totals) sum += total.wireBytes();
  return sum;
}

std::string tableText(const Report& report) {
  std::string text = head(report) + titles(report);
  for (const std::size_t place : report.order) text += rowOf(report, report.tensors[place]);
  return text + foot(report);
}

}  // namespace zipccl::tools::inspect
