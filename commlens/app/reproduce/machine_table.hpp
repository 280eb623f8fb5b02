#pragma once
#include <string>

#include "commlens/machine/machine.hpp"
#include "commlens/report/figures/figure.hpp"

namespace commlens::study {

/// The numbers of a machine file that times follow from, each with its source and confidence.
Figure machine_table(const Machine& machine, std::string id);

}  // namespace commlens::study
