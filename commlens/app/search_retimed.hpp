#pragma once
#include <string>
#include <vector>

#include "commlens/app/search_layouts.hpp"
#include "commlens/machine/cost/library.hpp"
#include "commlens/simulate/run_calibration.hpp"

namespace commlens {

/// What layouts are simulated on. All outlive the call.
struct RetimedOn {
  const SearchQuestion& question;
  const Machine* lender = nullptr;
  const Library& library;
  const RunCalibration& calibration;
};

/// The first `count` layouts of the answer that can be planned, each by the framework that makes such runs,
/// simulated; those that are passed over have a reason. Fails where the configuration cannot be read.
Result<std::vector<RetimedLayout>> retimed_layouts(const std::vector<std::string>& config,
                                                   const SearchAnswer& answer, const RetimedOn& on,
                                                   std::size_t count);

}  // namespace commlens
