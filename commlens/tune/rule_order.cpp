#include "commlens/tune/rule_order.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"

namespace commlens::tune {
namespace {

auto key_of(const Rule& rule) { return std::tuple(rule.kind, rule.ranks, rule.message.value); }

/// On one line, and not longer than the libraries read one.
std::string one_line(std::string text) {
  constexpr std::size_t k_most = 198;
  std::replace_if(text.begin(), text.end(), [](unsigned char letter) { return letter < ' '; }, ' ');
  return "# " + text.substr(0, k_most) + "\n";
}

}  // namespace

std::vector<Rule> in_order(std::vector<Rule> rules) {
  std::sort(rules.begin(), rules.end(), [](const Rule& a, const Rule& b) { return key_of(a) < key_of(b); });
  const auto same = std::adjacent_find(rules.begin(), rules.end(),
                                       [](const Rule& a, const Rule& b) { return key_of(a) == key_of(b); });
  COMMLENS_CHECK(same == rules.end(), "a message has one rule");
  return rules;
}

std::string subject_of(const Rule& rule) {
  return fmt::format("{} of {} bytes over {} ranks", name_of(rule.kind), rule.message.value, rule.ranks);
}

std::string comment_of(const RuleOrigin& origin, const std::string& what) {
  return one_line(fmt::format("{}, written by commlens tune", what)) +
         one_line(fmt::format("messages: {}", origin.messages)) +
         one_line(fmt::format("machine: {}", origin.machine)) +
         one_line(fmt::format("versions: {}", origin.versions)) +
         one_line(fmt::format("date: {}, seed: {}", origin.date, origin.seed));
}

}  // namespace commlens::tune
