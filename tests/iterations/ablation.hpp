#pragma once
#include <string>

namespace commlens::test_support {

/// A table: the model's mean error on all runs of each suite, each term left out in turn and everything else
/// fitted again to those runs.
std::string ablation_table();

}  // namespace commlens::test_support
