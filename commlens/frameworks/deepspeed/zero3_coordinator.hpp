#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/zero3_modules.hpp"
#include "commlens/model/train_config.hpp"

namespace commlens::deepspeed {

/// What DeepSpeed's PartitionedParameterCoordinator does with parameters: which are gathered together, when,
/// and which are kept. One object lives through a whole training run. Sizes count elements of whole
/// parameters. Source: runtime/zero/partitioned_param_coordinator.py.
class Zero3Coordinator {
 public:
  /// Receives the parameters of one gather, in the order in which they were asked for.
  using Gather = std::function<void(const std::vector<std::size_t>& parameters)>;

  Zero3Coordinator(const LocalParameters& parameters, const Job& job, Gather gather);

  /// Hooks of one module: gather before it runs, free after it.
  void fetch(const HookedModule& module);
  void release(const HookedModule& module);
  /// End of a backward pass; the first one completes the trace of modules.
  void end_backward();
  /// The optimizer step frees all parameters; the persistent ones are gathered again by the caller.
  void step();

  const std::vector<std::size_t>& persistent() const { return persistent_; }
  /// What else an iteration starts with: two iterations after the first that start in the same way are equal.
  std::int64_t available_count() const { return available_count_; }
  bool is_recording() const { return is_recording_; }
  /// Modules and parameters of the recorded trace (sizes of the broadcasts that follow it).
  std::int64_t traced_modules() const { return static_cast<std::int64_t>(order_.size()); }
  std::int64_t traced_parameters() const { return static_cast<std::int64_t>(trace_.size()); }
  /// Called for every parameter that is freed.
  std::function<void(std::size_t parameter)> on_release;

 private:
  struct TracedParameter {
    std::size_t parameter;
    std::int64_t step;
  };
  void gather_missing(const HookedModule& module);
  void pop_fetched(const HookedModule& module);
  void prefetch();
  void complete_trace();
  std::vector<std::size_t> releasable(const HookedModule& module) const;
  void free_parameter(std::size_t parameter);
  std::int64_t size_of(std::size_t parameter) const { return parameters_->at(parameter).count; }

  const LocalParameters* parameters_;
  Options options_;
  Gather gather_;
  std::vector<std::size_t> persistent_;
  std::vector<bool> is_persistent_;
  std::vector<bool> is_available_;
  std::vector<std::int64_t> most_recent_;
  std::vector<std::vector<std::size_t>> order_;  // own parameters of each traced module call
  std::vector<TracedParameter> trace_;
  std::vector<std::vector<std::size_t>> uses_;  // by parameter: the traced calls that own it, ascending
  std::vector<std::int64_t> traversed_before_;  // by traced call: elements of all calls before it
  std::deque<TracedParameter> queue_;
  std::map<std::int64_t, std::vector<std::size_t>> release_decisions_;  // by step: decided once, then reused
  std::int64_t step_ = 0;
  std::int64_t available_count_ = 0;
  bool is_recording_ = true;
};

}  // namespace commlens::deepspeed
