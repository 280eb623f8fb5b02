#pragma once
#include <span>
#include <string>

namespace commlens {

/// One CSV line (RFC 4180, ended by \n): cells with a comma, a quote or a line break are quoted.
std::string csv_line(std::span<const std::string> cells);

}  // namespace commlens
