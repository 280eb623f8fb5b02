#include "commlens/config/shell_arithmetic.hpp"

#include <array>
#include <cctype>
#include <cstddef>
#include <limits>

#include "commlens/base/text.hpp"

namespace commlens {
namespace {

using Number = std::optional<std::int64_t>;

/// A binary operator; those that bind tighter have a higher level.
struct ArithmeticOperator {
  std::string_view text;
  int level = 0;
};
constexpr std::array<ArithmeticOperator, 13> k_arithmetic_operators = {{{"||", 1},
                                                                        {"&&", 2},
                                                                        {"==", 3},
                                                                        {"!=", 3},
                                                                        {"<=", 4},
                                                                        {">=", 4},
                                                                        {"<", 4},
                                                                        {">", 4},
                                                                        {"+", 5},
                                                                        {"-", 5},
                                                                        {"*", 6},
                                                                        {"/", 6},
                                                                        {"%", 6}}};
constexpr int k_deepest_expression = 50;

Number divided(std::string_view sign, std::int64_t left, std::int64_t right) {
  const bool has_no_value = right == 0 || (left == std::numeric_limits<std::int64_t>::min() && right == -1);
  if (has_no_value) {
    return std::nullopt;
  }
  return sign == "/" ? left / right : left % right;
}

Number combined(std::string_view sign, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  if (sign == "+") {
    return __builtin_add_overflow(left, right, &result) ? Number() : result;
  }
  if (sign == "-") {
    return __builtin_sub_overflow(left, right, &result) ? Number() : result;
  }
  if (sign == "*") {
    return __builtin_mul_overflow(left, right, &result) ? Number() : result;
  }
  if (sign == "/" || sign == "%") {
    return divided(sign, left, right);
  }
  const bool is_true = sign == "||"   ? left != 0 || right != 0
                       : sign == "&&" ? left != 0 && right != 0
                       : sign == "==" ? left == right
                       : sign == "!=" ? left != right
                       : sign == "<=" ? left <= right
                       : sign == ">=" ? left >= right
                       : sign == "<"  ? left < right
                                      : left > right;
  return is_true ? 1 : 0;
}

class ShellArithmetic {
 public:
  ShellArithmetic(std::string_view text, const std::function<Number(std::string_view)>& value_of)
      : text_(text), value_of_(value_of) {}

  Number whole() {
    const Number value = choice(0);
    skip_blanks();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
      ++at_;
    }
  }
  bool takes(std::string_view sign) {
    skip_blanks();
    if (text_.substr(at_, sign.size()) != sign) {
      return false;
    }
    at_ += sign.size();
    return true;
  }

  Number choice(int depth) {
    if (depth > k_deepest_expression) {
      return std::nullopt;
    }
    const Number condition = binary(1, depth + 1);
    if (!takes("?")) {
      return condition;
    }
    const Number yes = choice(depth + 1);
    if (!takes(":")) {
      return std::nullopt;
    }
    const Number no = choice(depth + 1);
    return !condition ? std::nullopt : *condition != 0 ? yes : no;
  }

  const ArithmeticOperator* operator_of(int least_level) {
    skip_blanks();
    for (const ArithmeticOperator& one : k_arithmetic_operators) {
      const bool is_power = one.text == "*" && text_.substr(at_, 2) == "**";
      if (text_.substr(at_, one.text.size()) == one.text && !is_power) {
        return one.level >= least_level ? &one : nullptr;
      }
    }
    return nullptr;
  }

  Number binary(int least_level, int depth) {
    if (depth > k_deepest_expression) {
      return std::nullopt;
    }
    Number left = unary(depth + 1);
    while (const ArithmeticOperator* const sign = operator_of(least_level)) {
      at_ += sign->text.size();
      const Number right = binary(sign->level + 1, depth + 1);
      left = left && right ? combined(sign->text, *left, *right) : std::nullopt;
    }
    return left;
  }

  Number unary(int depth) {
    if (depth > k_deepest_expression) {
      return std::nullopt;
    }
    if (takes("-")) {
      const Number value = unary(depth + 1);
      return value ? combined("-", 0, *value) : value;
    }
    if (takes("+")) {
      return unary(depth + 1);
    }
    if (takes("!")) {
      const Number value = unary(depth + 1);
      return value ? Number(*value == 0 ? 1 : 0) : value;
    }
    if (takes("(")) {
      const Number value = choice(depth + 1);
      return takes(")") ? value : std::nullopt;
    }
    return operand();
  }

  Number operand() {
    skip_blanks();
    std::size_t end = at_;
    while (end < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[end])) != 0 || text_[end] == '_')) {
      ++end;
    }
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    if (word.empty()) {
      return std::nullopt;
    }
    if (std::isdigit(static_cast<unsigned char>(word.front())) == 0) {
      return value_of_(word);
    }
    const bool is_octal = word.size() > 1 && word.front() == '0';
    const Result<std::int64_t> number = parse_integer(word);
    return number && !is_octal ? Number(*number) : std::nullopt;
  }

  std::string_view text_;
  const std::function<Number(std::string_view)>& value_of_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(
    std::string_view text,
    const std::function<std::optional<std::int64_t>(std::string_view name)>& value_of) {
  return ShellArithmetic(text, value_of).whole();
}

}  // namespace commlens
