#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "tests/iterations/runs.hpp"

namespace commlens::test_support {

/// Layouts of one model on one number of devices with one sequence, batch and precision, at least three: how
/// well times that no run of theirs was fitted to put them in order.
struct LayoutGroup {
  std::string suite;
  std::string name;
  std::size_t layouts = 0;
  std::size_t pairs = 0;  // whose measured times are more than 3 % apart
  double tau = 0;         // Kendall's, over them
  double regret = 0;      // of the layout with the shortest predicted time: measured over the best, - 1, %
};

/// Groups of all suites, of tiny models and of the single node. Fitted: the suite's runs outside the group
/// (single node: runs of other hidden sizes).
const std::vector<LayoutGroup>& layout_groups();

/// One group a line, those of the single node and of tiny models together in a line each.
std::string layout_table();

}  // namespace commlens::test_support
