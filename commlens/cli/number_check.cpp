#include "commlens/cli/number_check.hpp"

#include <string>

#include <fmt/format.h>

#include "commlens/base/text.hpp"

namespace commlens {

CLI::Validator between(std::int64_t least, std::int64_t most) {
  return CLI::Range(least, most).description("");
}

CLI::Validator between(double least, double most) {
  const auto error_of = [least, most](const std::string& text) {
    const Result<double> number = parse_number(text);
    const bool is_inside = number && *number >= least && *number <= most;
    return is_inside ? std::string() : fmt::format("Value {} not in range {} to {}", text, least, most);
  };
  return {error_of, ""};
}

}  // namespace commlens
