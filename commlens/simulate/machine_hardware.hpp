#pragma once
#include <cstdint>

#include "commlens/machine/machine.hpp"
#include "commlens/simulate/known_names.hpp"
#include "commlens/simulate/training_run.hpp"

namespace commlens {

/// The device of a machine in the list of known ones; null: it is not there.
const Accelerator* accelerator_of(const Machine& machine);

/// FLOP/s of dense products in 16 bit, as the machine file has them; 0: it has none.
double stated_peak(const Machine& machine);

/// Ranks of a node, at least one.
std::int64_t ranks_on_node(const Machine& machine);

/// The devices of a machine as runs of `ranks` have them: peak, memory, its bandwidth, the network and the
/// size of a node are the machine's. Of a known device links are those that coefficients were fitted with,
/// except where a switch connects a node, and a peak that it sustains wins over the machine's. 0 where a
/// machine file lacks a number that is not known of the device either.
RunHardware machine_hardware(const Machine& machine, std::int64_t ranks);

}  // namespace commlens
