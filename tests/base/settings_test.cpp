// SPDX-License-Identifier: Apache-2.0
//
// Settings: every variable's values, defaults and errors, and that the table tells the truth.

#include "base/settings.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/text.hpp"

namespace zipccl {
namespace {

using Variables = std::map<std::string, std::string>;

Settings accepted(const std::string& name, const std::string& value) {
  const ParsedSettings parsed = parseSettings({{name, value}});
  EXPECT_TRUE(parsed.problems.empty()) << parsed.problems.front();
  return parsed.settings;
}

const SettingSpec& specOf(std::string_view name) {
  for (const SettingSpec& spec : settingSpecs()) {
    if (spec.name == name) return spec;
  }
  ADD_FAILURE() << "no " << name;
  return settingSpecs().front();
}

/// The value must be refused, with the default in force and a sentence that tells all.
void expectRefused(const std::string& name, const std::string& value) {
  SCOPED_TRACE(name + "=" + value);
  const ParsedSettings parsed = parseSettings({{name, value}});
  const SettingSpec& spec = specOf(name);
  ASSERT_EQ(parsed.problems.size(), 1u);
  for (const std::string_view part :
       {std::string_view(name), std::string_view(value), spec.values, spec.defaultValue}) {
    EXPECT_NE(parsed.problems[0].find(part), std::string::npos) << parsed.problems[0];
  }
  EXPECT_EQ(spec.show(parsed.settings), spec.show(Settings()));
}

TEST(Settings, TheTableStatesTheDefaults) {
  std::set<std::string_view> names;
  for (const SettingSpec& spec : settingSpecs()) {
    SCOPED_TRACE(spec.name);
    EXPECT_TRUE(names.insert(spec.name).second) << "listed twice";
    EXPECT_TRUE(spec.name.starts_with("ZIPCCL_"));
    EXPECT_FALSE(spec.values.empty());
    EXPECT_TRUE(spec.help.ends_with("."));
    const Settings defaults;
    if (spec.defaultValue.starts_with('(')) {
      EXPECT_EQ(spec.show(defaults), "");
    } else {
      EXPECT_EQ(spec.show(defaults), spec.defaultValue);
      Settings applied;
      EXPECT_TRUE(spec.apply(applied, spec.defaultValue));
      EXPECT_EQ(spec.show(applied), spec.defaultValue);
    }
  }
}

TEST(Settings, WhatIsShownReadsBack) {
  const Variables variables = {
      {"ZIPCCL_DISABLE", "1"},
      {"ZIPCCL_DEBUG", "TRACE"},
      {"ZIPCCL_DEBUG_SUBSYS", "COLL,GPU"},
      {"ZIPCCL_DEBUG_FILE", "/tmp/log.%h.%p"},
      {"ZIPCCL_COLLS", "AllGather,SendRecv"},
      {"ZIPCCL_MIN_BYTES", "64K"},
      {"ZIPCCL_REDUCE", "off"},
      {"ZIPCCL_STRATEGY", "staged"},
      {"ZIPCCL_MAX_SCRATCH", "1G"},
      {"ZIPCCL_PLUGIN_DIR", "/opt/plugins"},
      {"ZIPCCL_TUNE_FILE", "/opt/tune.txt"},
      {"ZIPCCL_HOST_CODEC", "avx2"},
      {"ZIPCCL_TIMEOUT", "5"},
      {"ZIPCCL_VERIFY", "100"},
      {"ZIPCCL_STATS", "/tmp/calls.%h.%r.json"},
  };
  const ParsedSettings parsed = parseSettings(variables);
  EXPECT_TRUE(parsed.problems.empty());
  ASSERT_EQ(variables.size(), settingSpecs().size()) << "a variable is not tested here";
  for (const SettingSpec& spec : settingSpecs()) {
    const std::string shown = spec.show(parsed.settings);
    EXPECT_EQ(shown, variables.at(std::string(spec.name))) << spec.name;
    EXPECT_NE(shown, spec.show(Settings())) << spec.name << ": the value is the default";
    Settings again;
    EXPECT_TRUE(spec.apply(again, shown));
    EXPECT_EQ(spec.show(again), shown);
  }
}

TEST(Settings, NamesAreReadInAnyCase) {
  EXPECT_EQ(accepted("ZIPCCL_DEBUG", "info").logLevel, LogLevel::kInfo);
  EXPECT_EQ(accepted("ZIPCCL_DEBUG", "None").logLevel, LogLevel::kNone);
  EXPECT_EQ(accepted("ZIPCCL_STRATEGY", "Staged").strategy, StrategyChoice::kStaged);
  EXPECT_EQ(accepted("ZIPCCL_REDUCE", "ON").reduce, ReduceMode::kOn);
  EXPECT_TRUE(
      accepted("ZIPCCL_COLLS", "allgather").collectives.contains(CollectiveKind::kAllGather));
}

TEST(Settings, ListsIncludeOrExclude) {
  CollectiveSet onlyTwo;
  onlyTwo.insert(CollectiveKind::kAllGather);
  onlyTwo.insert(CollectiveKind::kAlltoAllv);
  EXPECT_EQ(accepted("ZIPCCL_COLLS", "AlltoAllv,AllGather").collectives, onlyTwo);
  CollectiveSet allButTwo = CollectiveSet::all();
  allButTwo.erase(CollectiveKind::kAllReduce);
  allButTwo.erase(CollectiveKind::kReduceScatter);
  EXPECT_EQ(accepted("ZIPCCL_COLLS", "^AllReduce,ReduceScatter").collectives, allButTwo);
  EXPECT_TRUE(accepted("ZIPCCL_COLLS", "^all").collectives.isEmpty());
  EXPECT_EQ(accepted("ZIPCCL_COLLS", "all").collectives, CollectiveSet::all());
  EXPECT_EQ(accepted("ZIPCCL_DEBUG_SUBSYS", "ALL").logSubsystems, kAllLogSubsystems);
  EXPECT_EQ(accepted("ZIPCCL_DEBUG_SUBSYS", "^INIT,env").logSubsystems,
            kAllLogSubsystems & ~(static_cast<std::uint32_t>(LogSubsystem::kInit) |
                                  static_cast<std::uint32_t>(LogSubsystem::kEnv)));
  for (const char* const wrong : {"AllGathr", "AllGather,", ",AllGather", "^", "AllGather;Gather",
                                  "AllGather,^Gather", " AllGather"}) {
    expectRefused("ZIPCCL_COLLS", wrong);
  }
  expectRefused("ZIPCCL_DEBUG_SUBSYS", "INIT,NET");
}

TEST(Settings, EveryCollectiveHasAName) {
  for (const CollectiveKind kind : kAllCollectiveKinds) {
    EXPECT_EQ(collectiveByName(collectiveName(kind)), kind);
    const Settings settings = accepted("ZIPCCL_COLLS", std::string(collectiveName(kind)));
    EXPECT_TRUE(settings.collectives.contains(kind));
    EXPECT_NE(specOf("ZIPCCL_COLLS").values.find(collectiveName(kind)), std::string_view::npos);
  }
  EXPECT_FALSE(collectiveByName("Reduce").has_value());
}

TEST(Settings, NumbersAreStrict) {
  EXPECT_EQ(accepted("ZIPCCL_MIN_BYTES", "0").minBytes, 0u);
  EXPECT_EQ(accepted("ZIPCCL_MIN_BYTES", "1").minBytes, 1u);
  EXPECT_EQ(accepted("ZIPCCL_MIN_BYTES", "3k").minBytes, 3072u);
  EXPECT_EQ(accepted("ZIPCCL_MIN_BYTES", "18446744073709551615").minBytes, ~std::uint64_t{0});
  EXPECT_EQ(accepted("ZIPCCL_MIN_BYTES", "17179869183G").minBytes, 17179869183u << 30);
  EXPECT_FALSE(Settings().minBytes.has_value());
  EXPECT_EQ(accepted("ZIPCCL_MAX_SCRATCH", "512m").maxScratchBytes, std::uint64_t{512} << 20);
  EXPECT_EQ(accepted("ZIPCCL_TIMEOUT", "0").timeout.count(), 0);
  EXPECT_EQ(accepted("ZIPCCL_TIMEOUT", "31536000").timeout, std::chrono::hours(24 * 365));
  for (const char* const wrong : {"-1", "+1", "1.5", "1e6", "0x10", " 1", "1 ", "K", "1KB", "1T",
                                  "18446744073709551616", "17179869184G", "auto"}) {
    expectRefused("ZIPCCL_MIN_BYTES", wrong);
  }
  expectRefused("ZIPCCL_MAX_SCRATCH", "0");
  expectRefused("ZIPCCL_TIMEOUT", "31536001");
  EXPECT_EQ(accepted("ZIPCCL_VERIFY", "4294967295").verifyEvery, 4294967295U);
  expectRefused("ZIPCCL_VERIFY", "4294967296");
  expectRefused("ZIPCCL_VERIFY", "-1");
  expectRefused("ZIPCCL_VERIFY", "all");
  for (const char* const wrong : {"yes", "true", "2", "01", "on"}) {
    expectRefused("ZIPCCL_DISABLE", wrong);
  }
  expectRefused("ZIPCCL_DEBUG", "DEBUG");
  expectRefused("ZIPCCL_STRATEGY", "fast");
  expectRefused("ZIPCCL_STRATEGY", "fused");
  expectRefused("ZIPCCL_REDUCE", "1");
}

TEST(Settings, EmptyIsUnsetAndForeignIsIgnored) {
  const ParsedSettings parsed = parseSettings({{"ZIPCCL_STRATEGY", ""},
                                               {"ZIPCCL_DISABLE", ""},
                                               {"ZIPCCL_TEST_SOMETHING", "1"},
                                               {"ZIPCCL_NCCL_LIB", "/opt/libnccl.so.2"},
                                               {"ZIPCCL_REPORT", "/tmp/report"},
                                               {"NCCL_DEBUG", "nonsense"},
                                               {"PATH", "/bin"}});
  EXPECT_TRUE(parsed.problems.empty());
}

TEST(Settings, UnknownNamesAreReportedWithWhatWasMeant) {
  const ParsedSettings typo = parseSettings({{"ZIPCCL_STRATGY", "staged"}});
  ASSERT_EQ(typo.problems.size(), 1u);
  EXPECT_NE(typo.problems[0].find("did you mean ZIPCCL_STRATEGY?"), std::string::npos)
      << typo.problems[0];
  const ParsedSettings other = parseSettings({{"ZIPCCL_SOMETHING_ELSE", "1"}});
  ASSERT_EQ(other.problems.size(), 1u);
  EXPECT_NE(other.problems[0].find("ZIPCCL_SOMETHING_ELSE"), std::string::npos);
  EXPECT_EQ(other.problems[0].find("did you mean"), std::string::npos) << other.problems[0];
}

/// docs/settings.md has one row for each variable, with the words of the table.
TEST(Settings, TheDocumentSaysTheSame) {
  std::ifstream file(ZIPCCL_SETTINGS_DOCUMENT);
  ASSERT_TRUE(file.is_open());
  std::vector<std::string> rows;
  // Up to the settings that this library does not read.
  for (std::string line; std::getline(file, line) && !line.starts_with("## ");) {
    if (line.starts_with("| `ZIPCCL_")) rows.push_back(line);
  }
  std::vector<std::string> expected;
  for (const SettingSpec& spec : settingSpecs()) {
    std::string values;
    // A bar would end the cell.
    for (const char c : spec.values) values += c == '|' ? std::string(", ") : std::string(1, c);
    expected.push_back(
        concat("| `", spec.name, "` | ", values, " | ", spec.defaultValue, " | ", spec.help, " |"));
  }
  EXPECT_EQ(rows, expected);
}

TEST(Settings, OneProblemLeavesTheOthersInForce) {
  const ParsedSettings parsed = parseSettings(
      {{"ZIPCCL_DEBUG", "loud"}, {"ZIPCCL_STRATEGY", "native"}, {"ZIPCCL_TIMEOUT", "x"}});
  EXPECT_EQ(parsed.problems.size(), 2u);
  EXPECT_EQ(parsed.settings.strategy, StrategyChoice::kNative);
}

TEST(Settings, ReadsTheEnvironment) {
  ASSERT_EQ(::setenv("ZIPCCL_PLUGIN_DIR", "/some=where/else", 1), 0);
  const ParsedSettings parsed = readEnvironment();
  ::unsetenv("ZIPCCL_PLUGIN_DIR");
  EXPECT_EQ(parsed.settings.pluginDirectory, "/some=where/else");
  EXPECT_EQ(readEnvironment().settings.pluginDirectory, "");
}

TEST(Settings, NamesNoFilesToMorePrivilegedPrograms) {
  Variables variables;
  for (const SettingSpec& spec : settingSpecs()) variables[std::string(spec.name)] = "1";
  const Variables safe = withoutFiles(variables);
  for (const SettingSpec& spec : settingSpecs()) {
    const bool namesFile = spec.values == "a folder" || spec.values.starts_with("a file name");
    EXPECT_EQ(safe.contains(std::string(spec.name)), !namesFile) << spec.name;
  }
}

TEST(Settings, AreReadOnceForTheProcess) {
  const std::string before = settings().pluginDirectory;
  ASSERT_EQ(::setenv("ZIPCCL_PLUGIN_DIR", "/elsewhere", 1), 0);
  EXPECT_EQ(settings().pluginDirectory, before);
  EXPECT_EQ(&settings(), &settings());
  ::unsetenv("ZIPCCL_PLUGIN_DIR");
}

TEST(Settings, ExpandsFileNames) {
  const std::string host = shortHostName();
  const std::string process = concat(static_cast<std::int64_t>(::getpid()));
  EXPECT_EQ(expandFileName("/tmp/%h-%p.json"), "/tmp/" + host + "-" + process + ".json");
  EXPECT_EQ(expandFileName("%%h %x %"), "%h %x %");
  EXPECT_EQ(expandFileName("log.%r"), "log.%r");
  EXPECT_EQ(expandFileName(""), "");
  EXPECT_FALSE(host.empty());
  EXPECT_EQ(host.find('.'), std::string::npos);
}

}  // namespace
}  // namespace zipccl
