#pragma once
#include <string>

#include "commlens/base/result.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

struct GpuList;
struct Hardware;

/// The machine that a node with this hardware is, each number with its source; what nobody says is left out.
///   host  its name
Machine machine_from_hardware(const Hardware& hardware, const GpuList& gpus, const std::string& host);

/// That of this machine, by hwloc, and NVML or ROCm SMI where they are. Fails without hwloc.
Result<Machine> machine_here();

}  // namespace commlens
