// The causes of frameworks' rules are in the table of compare.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "commlens/compare/causes.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens {
namespace {

TEST(Causes, EveryRuleHasACauseOfTheTable) {
  const std::vector<std::string_view> names = cause_names();
  for (const auto& [rule, row] : rule_book().rows()) {
    const std::optional<RuleMeaning> meaning = rule_book().meaning_of(rule);
    ASSERT_EQ(meaning, row) << rule;
    EXPECT_NE(std::find(names.begin(), names.end(), meaning->cause), names.end()) << rule;
    EXPECT_EQ(meaning->less.empty(), meaning->less_source.empty()) << rule;
  }
}

TEST(Causes, AreUniqueAndHaveAReason) {
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
  for (const RuleRow& row : rule_book().rows()) {
    EXPECT_TRUE(rules.insert(row.rule).second) << row.rule;
  }
}

TEST(Causes, TermsHaveCausesOfTheirOwn) {
  const std::vector<std::string_view> names = cause_names();
  for (const Term term : {Term::gradients, Term::parameters, Term::boundary, Term::tensor}) {
    EXPECT_NE(std::find(names.begin(), names.end(), cause_of(term)), names.end());
  }
  EXPECT_EQ(rule_book().meaning_of("no.such_rule"), std::nullopt);
  EXPECT_EQ(cause_named("no_such_cause").title, "no_such_cause");
}

}  // namespace
}  // namespace commlens
