#include "commlens/compare/causes.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace commlens {
namespace {

TEST(Causes, EveryRuleHasACauseOfTheTable) {
  const std::vector<std::string_view> names = cause_names();
  for (const std::string_view rule : explained_rules()) {
    const std::optional<RuleMeaning> meaning = meaning_of(rule);
    ASSERT_TRUE(meaning.has_value()) << rule;
    EXPECT_NE(std::find(names.begin(), names.end(), meaning->cause), names.end()) << rule;
    EXPECT_EQ(meaning->less.empty(), meaning->less_source.empty()) << rule;
  }
}

TEST(Causes, StandOnceAndSayWhy) {
  std::set<std::string_view> names;
  std::set<std::string> titles;
  for (const std::string_view name : cause_names()) {
    EXPECT_TRUE(names.insert(name).second) << name;
    const Cause cause = cause_named(name);
    EXPECT_TRUE(titles.insert(cause.title).second) << name;
    EXPECT_LE(cause.title.size(), 35U) << cause.title;
    EXPECT_TRUE(cause.sentence.ends_with('.')) << name;
  }
  std::set<std::string_view> rules;
  for (const std::string_view rule : explained_rules()) {
    EXPECT_TRUE(rules.insert(rule).second) << rule;
  }
}

TEST(Causes, TermsHaveCausesOfTheirOwn) {
  const std::vector<std::string_view> names = cause_names();
  for (const Term term : {Term::gradients, Term::parameters, Term::boundary, Term::tensor}) {
    EXPECT_NE(std::find(names.begin(), names.end(), cause_of(term)), names.end());
  }
  EXPECT_EQ(meaning_of("no.such_rule"), std::nullopt);
  EXPECT_EQ(cause_named("no_such_cause").title, "no_such_cause");
}

}  // namespace
}  // namespace commlens
