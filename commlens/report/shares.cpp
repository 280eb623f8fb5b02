#include "commlens/report/shares.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace commlens {

std::string percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? "-"
                    : fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

Cell share_cell(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? or_dash({}) : Cell(static_cast<double>(part) / static_cast<double>(whole));
}

Cell or_dash(Cell cell) { return cell.is_missing() ? Cell().shown("-") : cell; }

std::string bar(std::int64_t part, std::int64_t largest, std::size_t width) {
  if (part <= 0 || largest <= 0) {
    return "";
  }
  const double share = static_cast<double>(part) / static_cast<double>(largest);
  const auto marks = static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
  std::string filled(std::max<std::size_t>(marks, 1), '#');
  return filled;
}

}  // namespace commlens
