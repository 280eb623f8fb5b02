#pragma once
#include <span>
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// A file of data/machines, which the program carries.
struct BuiltInMachine {
  std::string_view name;
  std::string_view content;
};

/// In the order of their names.
std::span<const BuiltInMachine> built_in_machines();

/// The machine of that name, or of the file. Fails, with the nearest name, where there is neither.
Result<Machine> find_machine(const std::string& name_or_file);

}  // namespace commlens
