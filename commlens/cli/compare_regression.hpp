#pragma once
#include <string>

#include "commlens/base/result.hpp"
#include "commlens/cli/compare_sides.hpp"
#include "commlens/cli/console.hpp"

namespace CLI {
class App;
}

namespace commlens {

/// `compare A B --regression`: two runs of one job, compared in time.
class RegressionFlags {
 public:
  void declare(CLI::App& verb);
  bool asked() const { return asked_; }

  /// Compares the two sides, writes the result, and says "differs" when something regressed. Fails for sides
  /// that are no recordings with times, and for those of different jobs.
  Result<ExitCode> run(Console& console, const Side& a, const Side& b, const OutputFlags& output) const;

 private:
  bool asked_ = false;
  std::string tolerance_ = "5%";
  std::string metric_ = "p50";
};

}  // namespace commlens
