#include "commlens/base/csv.hpp"

#include <fmt/format.h>

namespace commlens {
namespace {

/// Reads cells and lines one letter after the other.
class CsvReader {
 public:
  explicit CsvReader(std::string_view content) : content_(content) {}

  /// The next line with a cell that is not empty; false at the end.
  bool next(CsvTable::Row& row) {
    while (at_ < content_.size()) {
      row = {line_, {""}};
      read_line(row.cells);
      if (row.cells.size() > 1 || row.cells.front().find_first_not_of(" \t") != std::string::npos) {
        return true;
      }
    }
    return false;
  }
  int open_quote() const { return open_quote_; }  // line; 0: none

 private:
  void read_line(std::vector<std::string>& cells) {
    bool is_quoted = false;
    while (at_ < content_.size()) {
      const char letter = content_[at_++];
      line_ += letter == '\n' ? 1 : 0;
      if (letter == '"' && is_quoted && at_ < content_.size() && content_[at_] == '"') {
        cells.back() += content_[at_++];
      } else if (letter == '"') {
        is_quoted = !is_quoted;
        open_quote_ = is_quoted ? line_ : 0;
      } else if (letter == ',' && !is_quoted) {
        cells.emplace_back();
      } else if (letter == '\n' && !is_quoted) {
        return;
      } else if (letter != '\r' || is_quoted) {
        cells.back() += letter;
      }
    }
  }

  std::string_view content_;
  std::size_t at_ = 0;
  int line_ = 1;
  int open_quote_ = 0;
};

}  // namespace

std::string CsvTable::cell(const Row& row, std::string_view column) const {
  const auto found = columns.find(column);
  return found == columns.end() || found->second >= row.cells.size() ? "" : row.cells[found->second];
}

Result<CsvTable> parse_csv(std::string_view content) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";  // of UTF-8, as spreadsheets write it
  CsvTable table;
  CsvReader reader(content.starts_with(mark) ? content.substr(mark.size()) : content);
  CsvTable::Row row;
  std::string twice;
  if (reader.next(row)) {
    for (std::size_t column = 0; column < row.cells.size(); ++column) {
      if (!row.cells[column].empty() && !table.columns.emplace(row.cells[column], column).second) {
        twice = row.cells[column];
      }
    }
  }
  while (reader.next(row)) {
    table.rows.push_back(row);
  }
  if (reader.open_quote() > 0) {
    return failure(fmt::format("line {}: a quote is not closed", reader.open_quote()));
  }
  return twice.empty() ? Result<CsvTable>(std::move(table))
                       : failure(fmt::format("two columns are called '{}'", twice));
}

std::string csv_line(std::span<const std::string> cells) {
  std::string line;
  for (std::size_t at = 0; at < cells.size(); ++at) {
    const std::string& cell = cells[at];
    line += at == 0 ? "" : ",";
    if (cell.find_first_of(",\"\r\n") == std::string::npos) {
      line += cell;
      continue;
    }
    line += '"';
    for (const char c : cell) {
      line += c == '"' ? std::string("\"\"") : std::string(1, c);
    }
    line += '"';
  }
  return line + "\n";
}

}  // namespace commlens
