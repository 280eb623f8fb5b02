#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/plan/local_parameters.hpp"

namespace commlens::deepspeed {

/// A module as the hooks of stage 3 see it.
struct HookedModule {
  std::vector<std::size_t> parameters;  // that it handles: its own, or all below it where it is a leaf
  std::vector<std::size_t> own;
  std::vector<std::size_t> below;  // its own and those of modules below it
  bool is_leaf = false;
};

/// What DeepSpeed's PartitionedParameterCoordinator does with parameters: which are gathered together, when,
/// and which are kept. One object lives through a whole training run. Sizes count elements of whole
/// parameters. Source: runtime/zero/partitioned_param_coordinator.py.
class Zero3Coordinator {
 public:
  enum class Pass : std::uint8_t { forward, backward, recompute };

  Zero3Coordinator(const LocalParameters& parameters, std::vector<HookedModule> modules, const Job& job);

  /// Receives the parameters of one gather, ascending.
  std::function<void(const std::vector<std::size_t>& parameters)> gather;
  /// Called for every parameter that is freed.
  std::function<void(std::size_t parameter)> on_release;
  /// Called where ranks compare a list of so many numbers of their traces.
  std::function<void(std::int64_t numbers)> on_check;

  /// A forward pass begins; with gradients, or to evaluate.
  void start_forward(bool trains);
  /// Hooks of one module: gather before it runs, free after it.
  void fetch(std::size_t module, Pass pass);
  void release(std::size_t module, Pass pass);
  /// End of a forward pass that evaluates.
  void end_evaluation();
  /// Before and after the last reduction of a backward pass.
  void before_last_reduction();
  void end_backward();
  /// The optimizer step frees all parameters.
  void step();
  /// The client gathered a parameter and gave it back, so that it is no longer here; whether it was not
  /// before.
  bool take_away(std::size_t parameter);
  /// The persistent ones are gathered again, by the caller.
  void keep_persistent();

  const std::vector<std::size_t>& persistent() const { return persistent_; }
  enum class Mode : std::uint8_t { invalid, recording, complete };
  /// All that the next iteration depends on: two that start alike are equal.
  struct State {
    std::vector<bool> available;
    std::int64_t count = 0;
    std::size_t decisions = 0;
    Mode mode = Mode::invalid;
    friend bool operator==(const State&, const State&) = default;
  };
  State state() const;

 private:
  struct TracedParameter {
    std::size_t parameter;
    std::int64_t step;
  };
  /// Where a trace uses each parameter, and how many elements it uses before each step.
  struct Uses {
    std::vector<std::int64_t> traversed;
    std::vector<std::vector<std::int64_t>> steps;  // by parameter, ascending
  };
  /// The order of modules and parameters in a pass, and where the pass under way is in it.
  struct Traced {
    Mode mode = Mode::invalid;
    std::vector<std::size_t> order;
    std::vector<TracedParameter> parameters;
    Uses own;    // by modules themselves
    Uses below;  // by modules and those below them; only where leaves are
    std::deque<TracedParameter> queue;
    std::vector<std::int64_t> most_recent;  // by parameter: the last step that it was fetched for
    /// By module and step: decided once and kept, also for a later trace.
    std::map<std::pair<std::size_t, std::int64_t>, std::vector<std::size_t>> decisions;
    std::int64_t step = 0;
    std::int64_t count = 0;  // elements of available parameters
  };

  void expect(std::size_t module);
  void invalidate();
  void drop_in_flight();
  void reset_step();
  void complete();
  Uses uses(std::vector<std::size_t> HookedModule::* parameters) const;
  std::int64_t room() const;
  void gather_missing(const HookedModule& module);
  void attribute(const HookedModule& module);
  void pop_fetched(const HookedModule& module);
  void prefetch();
  void start_gather(const std::vector<std::size_t>& set);
  const std::vector<std::size_t>& decision(std::size_t module);
  std::vector<std::size_t> releasable(std::size_t module) const;
  void free_parameter(std::size_t parameter);
  std::int64_t size_of(std::size_t parameter) const { return parameters_->at(parameter).count; }

  const LocalParameters* parameters_;
  std::vector<HookedModule> modules_;
  Options options_;
  bool checks_at_forward_;
  bool counts_from_step_;
  bool releases_leftovers_;
  std::vector<std::size_t> persistent_;
  std::vector<bool> is_persistent_;
  std::vector<bool> is_available_;  // or on its way
  std::vector<bool> is_in_flight_;
  std::vector<std::set<std::size_t>> active_;  // by parameter: the modules that use it now
  std::vector<std::size_t> backward_;          // modules whose backward pass is under way, the latest last
  std::map<std::size_t, std::set<std::size_t>> recomputed_;  // by module: frozen parameters that it releases
  Traced training_;
  Traced evaluation_;  // where it has a trace of its own
  Traced* now_ = &training_;
};

}  // namespace commlens::deepspeed
