// SPDX-License-Identifier: Apache-2.0
//
// The table of settings, and the strict parsers of their values.

#include "base/settings.hpp"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "base/text.hpp"

extern char** environ;

namespace zipccl {

namespace {

constexpr std::string_view kPrefix = "ZIPCCL_";
constexpr std::string_view kTestPrefix = "ZIPCCL_TEST_";

constexpr std::array kLogLevels = {LogLevel::kNone, LogLevel::kVersion, LogLevel::kWarn,
                                   LogLevel::kInfo, LogLevel::kTrace};
constexpr std::array kLogSubsystems = {
    LogSubsystem::kInit,      LogSubsystem::kEnv,    LogSubsystem::kColl, LogSubsystem::kCodec,
    LogSubsystem::kTransport, LogSubsystem::kTuning, LogSubsystem::kGpu,  LogSubsystem::kShim};
constexpr std::array kReduceModes = {ReduceMode::kAuto, ReduceMode::kOn, ReduceMode::kOff};
constexpr std::array kStrategyChoices = {StrategyChoice::kAuto, StrategyChoice::kNative,
                                         StrategyChoice::kStaged};
constexpr std::array kHostCodecChoices = {HostCodecChoice::kAuto, HostCodecChoice::kScalar,
                                          HostCodecChoice::kAvx2, HostCodecChoice::kAvx512};

template <class Enum, std::size_t count>
bool parseEnum(std::string_view text, const std::array<Enum, count>& values,
               std::string_view (*nameOf)(Enum) noexcept, Enum& out) {
  for (const Enum value : values) {
    if (equalsIgnoringCase(text, nameOf(value))) {
      out = value;
      return true;
    }
  }
  return false;
}

bool parseUnsigned(std::string_view text, std::uint64_t& out) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  out = value;
  return true;
}

bool parseBool(std::string_view text, bool& out) {
  if (text != "0" && text != "1") return false;
  out = text == "1";
  return true;
}

/// `4096`, `64K`, `256M`, `1G`: powers of 1024, as in nccl-tests.
bool parseBytes(std::string_view text, std::uint64_t& out) {
  unsigned shift = 0;
  if (!text.empty()) {
    switch (text.back()) {
      case 'k':
      case 'K':
        shift = 10;
        break;
      case 'm':
      case 'M':
        shift = 20;
        break;
      case 'g':
      case 'G':
        shift = 30;
        break;
      default:
        break;
    }
  }
  if (shift != 0) text.remove_suffix(1);
  std::uint64_t value = 0;
  if (!parseUnsigned(text, value)) return false;
  if (value > (std::numeric_limits<std::uint64_t>::max() >> shift)) return false;
  out = value << shift;
  return true;
}

std::string showBytes(std::uint64_t bytes) {
  constexpr std::string_view kSuffixes = "KMG";
  std::size_t suffixCount = 0;
  while (suffixCount < kSuffixes.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++suffixCount;
  }
  return suffixCount == 0 ? concat(bytes) : concat(bytes, kSuffixes[suffixCount - 1]);
}

/// NCCL's lists: `A,B`, or `^A,B` for all but those. `add` takes one name and may refuse it.
template <class Add>
bool parseList(std::string_view text, bool& isExclusion, Add add) {
  isExclusion = text.starts_with('^');
  if (isExclusion) text.remove_prefix(1);
  for (;;) {
    const std::size_t comma = text.find(',');
    if (!add(text.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

bool parseSubsystems(std::string_view text, std::uint32_t& out) {
  std::uint32_t named = 0;
  bool isExclusion = false;
  const bool isAccepted = parseList(text, isExclusion, [&](std::string_view name) {
    if (equalsIgnoringCase(name, "ALL")) {
      named = kAllLogSubsystems;
      return true;
    }
    LogSubsystem subsystem = LogSubsystem::kInit;
    if (!parseEnum(name, kLogSubsystems, logSubsystemName, subsystem)) return false;
    named |= static_cast<std::uint32_t>(subsystem);
    return true;
  });
  if (!isAccepted) return false;
  out = isExclusion ? kAllLogSubsystems & ~named : named;
  return true;
}

std::string showSubsystems(std::uint32_t mask) {
  if (mask == kAllLogSubsystems) return "ALL";
  if (mask == 0) return "^ALL";
  std::string out;
  for (const LogSubsystem subsystem : kLogSubsystems) {
    if ((mask & static_cast<std::uint32_t>(subsystem)) == 0) continue;
    out += concat(out.empty() ? "" : ",", logSubsystemName(subsystem));
  }
  return out;
}

bool parseCollectives(std::string_view text, CollectiveSet& out) {
  CollectiveSet named;
  bool isExclusion = false;
  const bool isAccepted = parseList(text, isExclusion, [&](std::string_view name) {
    if (equalsIgnoringCase(name, "all")) {
      named = CollectiveSet::all();
      return true;
    }
    const std::optional<CollectiveKind> kind = collectiveByName(name);
    if (kind) named.insert(*kind);
    return kind.has_value();
  });
  if (!isAccepted) return false;
  out = CollectiveSet();
  for (const CollectiveKind kind : kAllCollectiveKinds) {
    if (named.contains(kind) != isExclusion) out.insert(kind);
  }
  return true;
}

std::string showCollectives(CollectiveSet set) {
  if (set == CollectiveSet::all()) return "all";
  if (set.isEmpty()) return "^all";
  std::string out;
  for (const CollectiveKind kind : kAllCollectiveKinds) {
    if (set.contains(kind)) out += concat(out.empty() ? "" : ",", collectiveName(kind));
  }
  return out;
}

template <std::string Settings::*member>
bool applyText(Settings& settings, std::string_view value) {
  settings.*member = value;
  return true;
}

template <std::string Settings::*member>
std::string showText(const Settings& settings) {
  return settings.*member;
}

constexpr std::array kSpecs = {
    SettingSpec{
        .name = "ZIPCCL_DISABLE",
        .values = "0|1",
        .defaultValue = "0",
        .help = "1 passes every call through unchanged.",
        .apply = [](Settings& s, std::string_view v) { return parseBool(v, s.isDisabled); },
        .show = [](const Settings& s) { return std::string(s.isDisabled ? "1" : "0"); },
    },
    SettingSpec{
        .name = "ZIPCCL_DEBUG",
        .values = "NONE|VERSION|WARN|INFO|TRACE",
        .defaultValue = "WARN",
        .help = "How much is logged.",
        .apply =
            [](Settings& s, std::string_view v) {
              return parseEnum(v, kLogLevels, logLevelName, s.logLevel);
            },
        .show = [](const Settings& s) { return std::string(logLevelName(s.logLevel)); },
    },
    SettingSpec{
        .name = "ZIPCCL_DEBUG_SUBSYS",
        .values = "a list of INIT, ENV, COLL, CODEC, TRANSPORT, TUNING, GPU, SHIM, ALL; "
                  "^ before it means all but these",
        .defaultValue = "INIT,ENV",
        .help = "Which parts log at the levels INFO and TRACE.",
        .apply = [](Settings& s,
                    std::string_view v) { return parseSubsystems(v, s.logSubsystems); },
        .show = [](const Settings& s) { return showSubsystems(s.logSubsystems); },
    },
    SettingSpec{
        .name = "ZIPCCL_DEBUG_FILE",
        .values = "a file name; %h is the host, %p the process",
        .defaultValue = "(standard error)",
        .help = "Where the log goes.",
        .apply = applyText<&Settings::logFile>,
        .show = showText<&Settings::logFile>,
    },
    SettingSpec{
        .name = "ZIPCCL_COLLS",
        .values = "a list of AllGather, AllReduce, AlltoAll, AlltoAllv, Broadcast, Gather, "
                  "ReduceScatter, Scatter, SendRecv, all; ^ before it means all but these",
        .defaultValue = "all",
        .help = "Which collectives may travel compressed; the others pass through.",
        .apply = [](Settings& s, std::string_view v) { return parseCollectives(v, s.collectives); },
        .show = [](const Settings& s) { return showCollectives(s.collectives); },
    },
    SettingSpec{
        .name = "ZIPCCL_MIN_BYTES",
        .values = "a byte count; K, M and G are powers of 1024",
        .defaultValue = "(the policy decides)",
        .help = "Calls that move fewer bytes a rank pass through. Must be the same on all ranks.",
        .apply =
            [](Settings& s, std::string_view v) {
              std::uint64_t bytes = 0;
              if (!parseBytes(v, bytes)) return false;
              s.minBytes = bytes;
              return true;
            },
        .show = [](const Settings& s) { return s.minBytes ? showBytes(*s.minBytes) : ""; },
    },
    SettingSpec{
        .name = "ZIPCCL_REDUCE",
        .values = "auto|on|off",
        .defaultValue = "auto",
        .help = "Whether ReduceScatter and AllReduce may travel compressed: auto where that cannot "
                "change a bit or a table says that it pays, on always, off never.",
        .apply =
            [](Settings& s, std::string_view v) {
              return parseEnum(v, kReduceModes, reduceModeName, s.reduce);
            },
        .show = [](const Settings& s) { return std::string(reduceModeName(s.reduce)); },
    },
    SettingSpec{
        .name = "ZIPCCL_STRATEGY",
        .values = "auto|native|staged",
        .defaultValue = "auto",
        .help = "Forces one strategy; auto lets the policy choose for each call.",
        .apply =
            [](Settings& s, std::string_view v) {
              return parseEnum(v, kStrategyChoices, strategyChoiceName, s.strategy);
            },
        .show = [](const Settings& s) { return std::string(strategyChoiceName(s.strategy)); },
    },
    SettingSpec{
        .name = "ZIPCCL_MAX_SCRATCH",
        .values = "a byte count above 0; K, M and G are powers of 1024",
        .defaultValue = "256M",
        .help = "The most scratch memory of each communicator on each rank; larger messages go in "
                "chunks, larger Sends and Recvs uncompressed. A group with several Sends to one "
                "rank may need more.",
        .apply =
            [](Settings& s, std::string_view v) {
              std::uint64_t bytes = 0;
              if (!parseBytes(v, bytes) || bytes == 0) return false;
              s.maxScratchBytes = bytes;
              return true;
            },
        .show = [](const Settings& s) { return showBytes(s.maxScratchBytes); },
    },
    SettingSpec{
        .name = "ZIPCCL_PLUGIN_DIR",
        .values = "a folder",
        .defaultValue = "(beside the library)",
        .help = "Where transport plugins such as libzipccl_mpi.so are looked for first.",
        .apply = applyText<&Settings::pluginDirectory>,
        .show = showText<&Settings::pluginDirectory>,
    },
    SettingSpec{
        .name = "ZIPCCL_TUNE_FILE",
        .values = "a file name",
        .defaultValue = "(none)",
        .help = "What codec and links were measured to do over NCCL, which is then not measured "
                "again; what it lacks is added. Read and written by rank 0.",
        .apply = applyText<&Settings::tuneFile>,
        .show = showText<&Settings::tuneFile>,
    },
    SettingSpec{
        .name = "ZIPCCL_HOST_CODEC",
        .values = "auto|scalar|avx2|avx512",
        .defaultValue = "auto",
        .help = "Which implementation of the host codec runs: auto is the fastest that the machine "
                "has, and so is one that it lacks. All give the same bytes.",
        .apply =
            [](Settings& s, std::string_view v) {
              return parseEnum(v, kHostCodecChoices, hostCodecChoiceName, s.hostCodec);
            },
        .show = [](const Settings& s) { return std::string(hostCodecChoiceName(s.hostCodec)); },
    },
    SettingSpec{
        .name = "ZIPCCL_TIMEOUT",
        .values = "seconds, at most 31536000; 0 is for ever",
        .defaultValue = "1800",
        .help = "How long a host transport waits for another rank before the call fails.",
        .apply =
            [](Settings& s, std::string_view v) {
              constexpr std::uint64_t kYear = 365 * 86400;
              std::uint64_t seconds = 0;
              if (!parseUnsigned(v, seconds) || seconds > kYear) return false;
              s.timeout = std::chrono::seconds(seconds);
              return true;
            },
        .show =
            [](const Settings& s) {
              return concat(std::chrono::duration_cast<std::chrono::seconds>(s.timeout).count());
            },
    },
    SettingSpec{
        .name = "ZIPCCL_VERIFY",
        .values = "a count of calls, at most 4294967295",
        .defaultValue = "0",
        .help = "Of so many calls that are compressed over NCCL one is made natively too, and all "
                "bits are compared; 0 is never. Must be the same on all ranks.",
        .apply =
            [](Settings& s, std::string_view v) {
              std::uint64_t calls = 0;
              if (!parseUnsigned(v, calls)) return false;
              if (calls > std::numeric_limits<std::uint32_t>::max()) return false;
              s.verifyEvery = static_cast<std::uint32_t>(calls);
              return true;
            },
        .show = [](const Settings& s) { return concat(s.verifyEvery); },
    },
    SettingSpec{
        .name = "ZIPCCL_STATS",
        .values = "a file name; %h is the host, %p the process, %r its rank",
        .defaultValue = "(none)",
        .help = "Where each process leaves counts of its calls, as JSON, at its end.",
        .apply = applyText<&Settings::statisticsFile>,
        .show = showText<&Settings::statisticsFile>,
    },
};

/// What the interposer reads by itself, since it cannot depend on this library: known here, so that
/// who sets it is not told that nobody does.
constexpr std::array<std::string_view, 2> kNamesOfTheInterposer = {"ZIPCCL_NCCL_LIB",
                                                                   "ZIPCCL_REPORT"};

bool isOfTheInterposer(std::string_view name) {
  return std::find(kNamesOfTheInterposer.begin(), kNamesOfTheInterposer.end(), name) !=
         kNamesOfTheInterposer.end();
}

/// The known name nearest to `name`, if it is near enough to be what was meant.
std::string_view nearestName(std::string_view name) {
  std::string_view nearest;
  std::size_t nearestDistance = 3;
  std::vector<std::size_t> row;
  for (const SettingSpec& spec : kSpecs) {
    row.resize(spec.name.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i);
      for (std::size_t j = 1; j < row.size(); ++j) {
        const std::size_t substituted = diagonal + (name[i - 1] != spec.name[j - 1] ? 1 : 0);
        diagonal = row[j];
        row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() < nearestDistance) {
      nearestDistance = row.back();
      nearest = spec.name;
    }
  }
  return nearest;
}

}  // namespace

std::optional<CollectiveKind> collectiveByName(std::string_view name) noexcept {
  for (const CollectiveKind kind : kAllCollectiveKinds) {
    if (equalsIgnoringCase(name, collectiveName(kind))) return kind;
  }
  return std::nullopt;
}

std::string_view logLevelName(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kNone:
      return "NONE";
    case LogLevel::kVersion:
      return "VERSION";
    case LogLevel::kWarn:
      return "WARN";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kTrace:
      return "TRACE";
  }
  return "?";
}

std::string_view logSubsystemName(LogSubsystem subsystem) noexcept {
  switch (subsystem) {
    case LogSubsystem::kInit:
      return "INIT";
    case LogSubsystem::kEnv:
      return "ENV";
    case LogSubsystem::kColl:
      return "COLL";
    case LogSubsystem::kCodec:
      return "CODEC";
    case LogSubsystem::kTransport:
      return "TRANSPORT";
    case LogSubsystem::kTuning:
      return "TUNING";
    case LogSubsystem::kGpu:
      return "GPU";
    case LogSubsystem::kShim:
      return "SHIM";
  }
  return "?";
}

std::string_view reduceModeName(ReduceMode mode) noexcept {
  switch (mode) {
    case ReduceMode::kAuto:
      return "auto";
    case ReduceMode::kOn:
      return "on";
    case ReduceMode::kOff:
      return "off";
  }
  return "?";
}

std::string_view strategyChoiceName(StrategyChoice choice) noexcept {
  switch (choice) {
    case StrategyChoice::kAuto:
      return "auto";
    case StrategyChoice::kNative:
      return "native";
    case StrategyChoice::kStaged:
      return "staged";
  }
  return "?";
}

std::string_view hostCodecChoiceName(HostCodecChoice choice) noexcept {
  switch (choice) {
    case HostCodecChoice::kAuto:
      return "auto";
    case HostCodecChoice::kScalar:
      return "scalar";
    case HostCodecChoice::kAvx2:
      return "avx2";
    case HostCodecChoice::kAvx512:
      return "avx512";
  }
  return "?";
}

std::span<const SettingSpec> settingSpecs() noexcept { return kSpecs; }

ParsedSettings parseSettings(const std::map<std::string, std::string>& variables) {
  ParsedSettings parsed;
  for (const auto& variable : variables) {
    const std::string& name = variable.first;
    const std::string& value = variable.second;
    if (!name.starts_with(kPrefix)) continue;
    const auto* const spec = std::find_if(kSpecs.begin(), kSpecs.end(),
                                          [&](const SettingSpec& s) { return s.name == name; });
    if (spec == kSpecs.end()) {
      if (name.starts_with(kTestPrefix) || isOfTheInterposer(name)) continue;
      const std::string_view nearest = nearestName(name);
      parsed.problems.push_back(concat(name, " is not a setting of ZipCCL and is ignored",
                                       nearest.empty() ? "" : "; did you mean ", nearest,
                                       nearest.empty() ? "" : "?"));
      continue;
    }
    if (value.empty() || spec->apply(parsed.settings, value)) continue;
    parsed.problems.push_back(concat(name, "=", value, " is not accepted (accepted: ", spec->values,
                                     "); using the default, ", spec->defaultValue));
  }
  return parsed;
}

std::map<std::string, std::string> withoutFiles(std::map<std::string, std::string> variables) {
  for (const char* const name :
       {"ZIPCCL_DEBUG_FILE", "ZIPCCL_PLUGIN_DIR", "ZIPCCL_STATS", "ZIPCCL_TUNE_FILE"}) {
    variables.erase(name);
  }
  return variables;
}

ParsedSettings readEnvironment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !text.starts_with(kPrefix)) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  const bool isPrivileged = ::getauxval(AT_SECURE) != 0;
  return parseSettings(isPrivileged ? withoutFiles(std::move(variables)) : variables);
}

std::string shortHostName() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  return std::string(std::string_view(name).substr(0, std::string_view(name).find('.')));
}

std::string expandFileName(std::string_view pattern) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char kind = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (kind == 'h') {
      out += shortHostName();
    } else if (kind == 'p') {
      out += concat(static_cast<std::int64_t>(::getpid()));
    } else if (kind == '%') {
      out += '%';
    } else {
      out += pattern[i];
      continue;
    }
    ++i;
  }
  return out;
}

}  // namespace zipccl
