#pragma once
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// The machine of a file (docs/machines.md). Every number must have a value in a sensible range, its unit, a
/// source and a confidence; the error names file, line and field.
Result<Machine> read_machine(std::string_view file, std::string_view content);

/// The file of a machine: equal machines give equal bytes.
std::string machine_json(const Machine& machine);

}  // namespace commlens
