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

/// The first layouts of the answer, each planned by the framework that makes such runs and simulated once.
/// Fails where the configuration cannot be read; layouts that cannot be planned have a reason.
Result<std::vector<RetimedLayout>> retimed_layouts(const std::vector<std::string>& config,
                                                   const SearchAnswer& answer, const RetimedOn& on,
                                                   std::size_t count);

}  // namespace commlens
