#include "commlens/report/vocabulary.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/cli/output_page.hpp"

namespace commlens {
namespace {

using test_support::documented_keys;
using test_support::DocumentedKey;

/// "bytes", "one call"; as the page has them.
std::string unit_text(ColumnUnit unit) {
  return unit == ColumnUnit::count         ? "count"
         : unit == ColumnUnit::bytes_per_s ? "bytes/s"
                                           : std::string(name_of(unit));
}

std::string scope_text(ColumnScope scope) {
  static const std::map<ColumnScope, std::string> texts = {{ColumnScope::none, ""},
                                                           {ColumnScope::call, "one call"},
                                                           {ColumnScope::rank, "one rank"},
                                                           {ColumnScope::rank_0, "rank 0"},
                                                           {ColumnScope::all_ranks, "all ranks"}};
  return texts.at(scope);
}

TEST(Vocabulary, HasUnitAndScopeOfThePage) {
  const std::map<std::string, DocumentedKey> page = documented_keys();
  for (const OutputKey& key : vocabulary()) {
    const auto found = page.find(std::string(key.key));
    ASSERT_NE(found, page.end()) << key.key;
    EXPECT_EQ(found->second.unit, unit_text(key.unit)) << key.key;
    EXPECT_EQ(found->second.scope, scope_text(key.scope)) << key.key;
  }
}

TEST(Vocabulary, NamesUnitAndScopeInTheKey) {
  const std::set<std::string_view> of_the_contract = {"calls", "total_message_bytes"};
  for (const OutputKey& key : vocabulary()) {
    const auto has = [&](std::string_view part) { return key.key.find(part) != std::string_view::npos; };
    EXPECT_TRUE(!has("_all_ranks") || key.scope == ColumnScope::all_ranks) << key.key;
    EXPECT_TRUE(key.unit != ColumnUnit::bytes || has("bytes")) << key.key;
    EXPECT_TRUE(key.unit != ColumnUnit::nanoseconds || has("_ns")) << key.key;
    EXPECT_TRUE(key.unit != ColumnUnit::seconds || has("_s")) << key.key;
    EXPECT_TRUE(key.unit != ColumnUnit::bytes_per_s || has("bytes_per_s")) << key.key;
    EXPECT_TRUE(key.unit != ColumnUnit::share || has("share")) << key.key;
    EXPECT_TRUE(key.scope != ColumnScope::rank_0 || has("_rank_0")) << key.key;
    const bool is_count = key.unit == ColumnUnit::count || key.unit == ColumnUnit::bytes;
    EXPECT_TRUE(key.scope != ColumnScope::all_ranks || !is_count || has("_all_ranks") ||
                key.key == "sequences_per_iteration")
        << key.key;
    EXPECT_TRUE(of_the_contract.contains(key.key) || key.scope != ColumnScope::rank ||
                key.unit != ColumnUnit::bytes || has("_per_rank"))
        << key.key;
  }
}

TEST(Vocabulary, IsSortedForLookingUp) {
  EXPECT_TRUE(std::is_sorted(vocabulary().begin(), vocabulary().end(),
                             [](const OutputKey& a, const OutputKey& b) { return a.key < b.key; }));
}

}  // namespace
}  // namespace commlens
