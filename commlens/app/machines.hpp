#pragma once
#include <string>
#include <vector>

#include "commlens/app/format.hpp"
#include "commlens/base/result.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// The machines that the program carries, or one of them in full.
struct MachineList {
  std::vector<Machine> machines;
  bool in_full = false;
};

/// All machines, or those named (also files). Fails where one is unknown or wrong.
Result<MachineList> list_machines(const std::vector<std::string>& names = {});

/// A table; JSON as schema commlens.machines/1 (in full: the machine's file); CSV with one line per machine.
std::string rendered(const MachineList& list, Format format, const TextStyle& style = {});

}  // namespace commlens
