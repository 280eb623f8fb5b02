#pragma once
#include <span>
#include <string>

#include "commlens/base/embedded_file.hpp"
#include "commlens/base/result.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// The files of data/machines, in the order of their names.
std::span<const EmbeddedFile> built_in_machines();

/// The machine of that name, or of the file. Fails, with the nearest name, where there is neither.
Result<Machine> find_machine(const std::string& name_or_file);

}  // namespace commlens
