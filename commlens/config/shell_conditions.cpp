#include "commlens/config/shell_conditions.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "commlens/base/text.hpp"

namespace commlens {
namespace {

constexpr int k_deepest_condition = 40;

ShellTruth truth(bool value) { return value ? ShellTruth::yes : ShellTruth::no; }

ShellTruth inverted(ShellTruth value) {
  return value == ShellTruth::unknown ? value : truth(value == ShellTruth::no);
}

ShellTruth both(ShellTruth left, ShellTruth right) {
  if (left == ShellTruth::no || right == ShellTruth::no) {
    return ShellTruth::no;
  }
  return left == ShellTruth::yes && right == ShellTruth::yes ? ShellTruth::yes : ShellTruth::unknown;
}

ShellTruth either(ShellTruth left, ShellTruth right) {
  return inverted(both(inverted(left), inverted(right)));
}

/// The expression of `[ … ]`, `[[ … ]]` or `test`.
class TestExpression {
 public:
  TestExpression(std::span<const ShellToken> tokens, ShellValues& values)
      : tokens_(tokens), values_(values) {}

  ShellTruth whole() {
    const ShellTruth value = any(0);
    return at_ == tokens_.size() ? value : ShellTruth::unknown;
  }

 private:
  bool is_at(std::string_view text, std::size_t ahead = 0) const {
    return at_ + ahead < tokens_.size() && tokens_[at_ + ahead].text == text;
  }

  ShellTruth any(int depth) {
    if (depth > k_deepest_condition) {
      return ShellTruth::unknown;
    }
    ShellTruth value = all(depth + 1);
    while (is_at("||") || is_at("-o")) {
      ++at_;
      value = either(value, all(depth + 1));
    }
    return value;
  }

  ShellTruth all(int depth) {
    ShellTruth value = one(depth + 1);
    while (is_at("&&") || is_at("-a")) {
      ++at_;
      value = both(value, one(depth + 1));
    }
    return value;
  }

  ShellTruth one(int depth) {
    if (depth > k_deepest_condition || at_ >= tokens_.size()) {
      return ShellTruth::unknown;
    }
    if (is_at("!")) {
      ++at_;
      return inverted(one(depth + 1));
    }
    if (is_at("(")) {
      ++at_;
      const ShellTruth value = any(depth + 1);
      const bool is_closed = is_at(")");
      ++at_;
      return is_closed ? value : ShellTruth::unknown;
    }
    const std::string& word = tokens_[at_].text;
    const bool is_unary =
        word.size() == 2 && word[0] == '-' && at_ + 1 < tokens_.size() && !is_binary(at_ + 1);
    return is_unary ? unary(word[1]) : binary();
  }

  static bool is_comparison(std::string_view text) {
    constexpr std::array<std::string_view, 10> all = {"=",   "==",  "!=",  "=~",  "-eq",
                                                      "-ne", "-lt", "-le", "-gt", "-ge"};
    return std::find(all.begin(), all.end(), text) != all.end();
  }
  bool is_binary(std::size_t at) const { return at + 1 < tokens_.size() && is_comparison(tokens_[at].text); }

  /// The operand's text; std::nullopt if it is not known.
  std::optional<std::string> operand() {
    const ShellToken& token = tokens_[at_++];
    const std::string text = values_.text(token.text, token.line);
    return values_.unknown_in(text, true) != nullptr ? std::nullopt
                                                     : std::optional(values_.without_unset(text));
  }

  ShellTruth unary(char sign) {
    ++at_;
    const std::optional<std::string> text = operand();
    if (!text || (sign != 'n' && sign != 'z')) {
      return ShellTruth::unknown;
    }
    return truth(text->empty() == (sign == 'z'));
  }

  ShellTruth binary() {
    const bool compares = is_binary(at_ + 1);
    const std::optional<std::string> left = operand();
    if (!compares) {
      return left ? truth(!left->empty()) : ShellTruth::unknown;
    }
    const std::string& sign = tokens_[at_++].text;
    if (!left || sign == "=~") {
      ++at_;
      return ShellTruth::unknown;
    }
    if (sign[0] != '-') {
      const ShellTruth equal = shell_match(*left, tokens_[at_++], values_);
      return sign == "!=" ? inverted(equal) : equal;
    }
    const std::optional<std::string> right = operand();
    return right ? compared(sign, *left, *right) : ShellTruth::unknown;
  }

  static ShellTruth compared(std::string_view sign, const std::string& left, const std::string& right) {
    const Result<std::int64_t> a = parse_integer(left);
    const Result<std::int64_t> b = parse_integer(right);
    if (!a || !b) {
      return left.empty() || right.empty() ? ShellTruth::no
                                           : ShellTruth::unknown;  // a shell says so and goes on
    }
    return truth(sign == "-eq"   ? *a == *b
                 : sign == "-ne" ? *a != *b
                 : sign == "-lt" ? *a < *b
                 : sign == "-le" ? *a <= *b
                 : sign == "-gt" ? *a > *b
                                 : *a >= *b);
  }

  std::span<const ShellToken> tokens_;
  ShellValues& values_;
  std::size_t at_ = 0;
};

ShellTruth truth_of_command(std::span<const ShellToken> command, ShellValues& values) {
  if (command.empty()) {
    return ShellTruth::unknown;
  }
  const std::string& name = command.front().text;
  const std::string& last = command.back().text;
  if (name == "!") {
    return inverted(truth_of_command(command.subspan(1), values));
  }
  if ((name == "[" && last == "]") || (name == "[[" && last == "]]")) {
    return command.size() < 3 ? ShellTruth::no
                              : TestExpression(command.subspan(1, command.size() - 2), values).whole();
  }
  if (name == "test") {
    return TestExpression(command.subspan(1), values).whole();
  }
  if (command.size() == 1 && name.starts_with("((") && name.ends_with("))") && name.size() > 4) {
    const std::optional<std::int64_t> value =
        values.number(std::string_view(name).substr(2, name.size() - 4), command.front().line);
    return value ? truth(*value != 0) : ShellTruth::unknown;
  }
  return name == "true" || name == ":" ? ShellTruth::yes
         : name == "false"             ? ShellTruth::no
                                       : ShellTruth::unknown;
}

/// The end of the command that begins at `at`; [[ … ]] may hold && and ||.
std::size_t end_of_command(std::span<const ShellToken> tokens, std::size_t at) {
  const bool is_test = tokens[at].text == "[[" ||
                       (tokens[at].text == "!" && at + 1 < tokens.size() && tokens[at + 1].text == "[[");
  std::size_t end = at;
  while (end < tokens.size()) {
    if (is_test && tokens[end].text == "]]") {
      return end + 1;
    }
    if (!is_test && tokens[end].kind == ShellToken::Kind::separator) {
      return end;
    }
    ++end;
  }
  return end;
}

/// Whether * and ? of the pattern can stand for letters of the text so that both are equal.
bool glob_matches(std::string_view text, std::string_view pattern) {
  std::size_t at = 0;
  std::size_t of_pattern = 0;
  std::size_t star = std::string_view::npos;
  std::size_t from = 0;
  while (at < text.size()) {
    if (of_pattern < pattern.size() && pattern[of_pattern] == '*') {
      star = of_pattern++;
      from = at;
    } else if (of_pattern < pattern.size() &&
               (pattern[of_pattern] == '?' || pattern[of_pattern] == text[at])) {
      ++of_pattern;
      ++at;
    } else if (star != std::string_view::npos) {
      of_pattern = star + 1;
      at = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', of_pattern) == std::string_view::npos;
}

}  // namespace

ShellTruth shell_truth(std::span<const ShellToken> condition, ShellValues& values) {
  ShellTruth value = ShellTruth::unknown;
  std::string joint;
  std::size_t at = 0;
  while (at < condition.size()) {
    const ShellToken& token = condition[at];
    if (token.kind == ShellToken::Kind::separator) {
      const bool is_list = token.text == "\n" || token.text == ";";
      if (!is_list && token.text != "&&" && token.text != "||") {
        return ShellTruth::unknown;  // pipes, subshells
      }
      joint = is_list ? joint : token.text;
      ++at;
      continue;
    }
    const std::size_t end = end_of_command(condition, at);
    const ShellTruth next = truth_of_command(condition.subspan(at, end - at), values);
    value = joint == "&&" ? both(value, next) : joint == "||" ? either(value, next) : next;
    joint.clear();
    at = end;
  }
  return value;
}

ShellTruth shell_match(std::string_view text, const ShellToken& pattern, ShellValues& values) {
  constexpr std::size_t most_comparisons = 1'000'000;
  const bool has_wildcard = pattern.text.find_first_of("*?[(") != std::string::npos;
  if (!has_wildcard) {
    const std::string plain = values.text(pattern.text, pattern.line);
    return values.unknown_in(plain, true) != nullptr ? ShellTruth::unknown
                                                     : truth(values.without_unset(plain) == text);
  }
  const bool is_simple = pattern.text.find_first_of("[('\"\\$`") == std::string::npos;
  if (!is_simple || text.size() * pattern.text.size() > most_comparisons) {
    return ShellTruth::unknown;
  }
  return truth(glob_matches(text, pattern.text));
}

}  // namespace commlens
