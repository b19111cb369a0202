// SPDX-License-Identifier: Apache-2.0
//
// What the flags of the `perf` commands take.

#include "perf/flag_values.hpp"

#include <charconv>
#include <string>

#include "perf/datatype.hpp"
#include "support/failure.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf {

const CLI::Validator& byteSize() {
  static const CLI::Validator validator(
      [](std::string& text) {
        try {
          text = std::to_string(parseByteSize(text));
        } catch (const UsageError& error) {
          return std::string(error.what());
        }
        return std::string();
      },
      "", "byte size");
  return validator;
}

const CLI::Validator& wholeNumber() {
  static const CLI::Validator validator(
      [](std::string& text) {
        std::uint64_t value = 0;
        const char* const end = text.data() + text.size();
        const auto parsed = std::from_chars(text.data(), end, value);
        if (parsed.ec != std::errc() || parsed.ptr != end) {
          return inQuotes(text) + " is not a whole number below 2^64";
        }
        text = std::to_string(value);
        return std::string();
      },
      "", "whole number");
  return validator;
}

CLI::Validator numberFrom(std::uint64_t least, std::uint64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) {
        std::string error = wholeNumber()(text);
        if (!error.empty()) return error;
        const std::uint64_t value = std::stoull(text);
        if (value >= least && value <= most) return std::string();
        return text + " is not within " + std::to_string(least) + " to " + std::to_string(most);
      },
      "", "number");
}

void addDatatypeFlag(CLI::App& command, std::optional<zipcclDataType_t>& datatype) {
  command
      .add_option_function<std::string>(
          "-d,--datatype",
          [&datatype](const std::string& name) {
            datatype = datatypeOfName(name);
            if (!datatype) {
              throw CLI::ValidationError("--datatype",
                                         inQuotes(name) + " is none of " + datatypeNames());
            }
          },
          "Datatype: " + datatypeNames() + " [that of the data]")
      ->type_name("NAME");
}

}  // namespace zipccl::tools::perf
