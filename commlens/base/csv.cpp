#include "commlens/base/csv.hpp"

namespace commlens {

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
