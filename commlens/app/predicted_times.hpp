#pragma once
#include <string>

#include "commlens/app/prediction.hpp"
#include "commlens/base/result.hpp"

namespace commlens {

/// Gives each row with traffic the time of one call on a machine, whose nodes the ranks fill in order: of the
/// group of the row's first rank. Fails where machine or library are not known, and where the job has more
/// ranks than the machine.
Result<void> add_times(Prediction& prediction, const std::string& machine, const std::string& library);

}  // namespace commlens
