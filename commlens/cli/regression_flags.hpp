#pragma once
#include <string>

#include "commlens/app/compare.hpp"
#include "commlens/base/result.hpp"

namespace CLI {
class App;
}

namespace commlens {

/// `compare A B --regression`: two runs of one job, compared in time.
class RegressionFlags {
 public:
  void declare(CLI::App& verb);
  bool asked() const { return asked_; }
  Result<RegressionOptions> options() const;

 private:
  bool asked_ = false;
  std::string tolerance_ = "5%";
  std::string metric_ = "p50";
};

}  // namespace commlens
