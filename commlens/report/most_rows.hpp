#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/text.hpp"

namespace commlens {

constexpr std::size_t k_most_rows = 16;  // of a table with a row for each rank or pair

/// Keeps the rows with the largest values, in their order, and returns a line on how many are hidden.
template <typename Row, typename Weight>
std::string keep_most(std::vector<Row>& rows, std::string_view what, const Weight& weight) {
  if (rows.size() <= k_most_rows) {
    return {};
  }
  const std::size_t all = rows.size();
  std::vector<std::size_t> order(all);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weight(rows[a]) > weight(rows[b]); });
  order.resize(k_most_rows);
  std::sort(order.begin(), order.end());
  std::vector<Row> kept;
  for (const std::size_t row : order) {
    kept.push_back(std::move(rows[row]));
  }
  rows = std::move(kept);
  return fmt::format("the {} of {} {}\n", rows.size(), with_commas(static_cast<std::int64_t>(all)), what);
}

}  // namespace commlens
