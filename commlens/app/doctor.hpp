#pragma once
#include <string>
#include <vector>

#include "commlens/app/format.hpp"

namespace commlens {

/// A capability that this machine has or lacks, and why.
struct Finding {
  std::string subject;
  bool is_possible = false;
  std::string detail;
};

/// Checks what can be recorded and trained here: modules, launchers, libraries, clocks, free disk space.
std::vector<Finding> examine_machine();

/// A table; JSON as schema commlens.doctor/1; CSV with one line per finding.
std::string rendered(const std::vector<Finding>& findings, Format format, const TextStyle& style = {});

}  // namespace commlens
