#pragma once
#include <cstdint>
#include <vector>

#include "commlens/app/layout_options.hpp"

namespace CLI {
class App;
}

namespace commlens {

/// The layout flags of all verbs with a CONFIG. In predict a comma list sweeps.
class LayoutFlags {
 public:
  enum class Verb {
    predict,    // sweeps, and has --iterations N and --gpus-per-node
    predicted,  // has --iterations N
    trained,    // by our own trainer, whose rules lack some
    other       // its --iterations is a range
  };
  void declare(CLI::App& verb, Verb kind = Verb::other);

  Result<std::vector<Combination>> combinations() const { return combinations_of(given_); }
  Result<Overrides> single() const { return overrides_of(given_); }
  const LayoutValues& given() const { return given_; }
  std::int64_t ranks_per_node() const { return ranks_per_node_; }

 private:
  LayoutValues given_;
  std::int64_t ranks_per_node_ = 0;
};

}  // namespace commlens
