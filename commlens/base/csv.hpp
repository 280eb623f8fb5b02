#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"

namespace commlens {

/// One CSV line (RFC 4180, ended by \n): cells with a comma, a quote or a line break are quoted.
std::string csv_line(std::span<const std::string> cells);

/// A table with a line of names. Rows know the line that they start on.
struct CsvTable {
  struct Row {
    int line = 0;
    std::vector<std::string> cells;
  };
  std::map<std::string, std::size_t, std::less<>> columns;
  std::vector<Row> rows;

  bool has(std::string_view column) const { return columns.find(column) != columns.end(); }
  /// Empty where the table has no such column, or the row is too short.
  std::string cell(const Row& row, std::string_view column) const;
};

/// Reads RFC 4180: quoted cells may hold commas, doubled quotes and line breaks; empty lines are skipped.
/// Fails, naming the line, on a quote that is not closed and on two columns of one name.
Result<CsvTable> parse_csv(std::string_view content);

}  // namespace commlens
