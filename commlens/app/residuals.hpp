#pragma once
#include <string>
#include <vector>

#include "commlens/app/format.hpp"
#include "commlens/base/table.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// The machine, lines about what was fitted, and the residuals: a table; JSON as schema commlens.calibrate/1;
/// CSV.
std::string rendered_residuals(const Machine& machine, const std::vector<std::string>& lines,
                               const Table& table, Format format, const TextStyle& style);

/// Where numbers come from: `source`, or where it is empty the names of the files.
std::string source_of_numbers(const std::string& source, const std::vector<std::string>& files);

}  // namespace commlens
