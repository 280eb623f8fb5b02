#pragma once
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/base/result.hpp"
#include "commlens/machine/calibrate/sweep.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// The machine that was asked for (a name or a file), else the one that the points name: by its own name, or
/// by the longest of its names for a device that is in theirs. Fails where they name several machines, or
/// none that is known. Warns where what was asked for is another generation of processors than they name.
Result<Machine> machine_of_sweep(const std::string& asked, const std::vector<SweepPoint>& points,
                                 const Events& events);

}  // namespace commlens
