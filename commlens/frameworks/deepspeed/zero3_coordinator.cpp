#include "commlens/frameworks/deepspeed/zero3_coordinator.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "commlens/frameworks/deepspeed/options.hpp"

namespace commlens::deepspeed {
namespace {
constexpr std::int64_t k_never = std::numeric_limits<std::int64_t>::min();
}

Zero3Coordinator::Zero3Coordinator(const LocalParameters& parameters, const Job& job, Gather gather)
    : parameters_(&parameters),
      options_(options(job)),
      gather_(std::move(gather)),
      is_persistent_(parameters.size(), false),
      is_available_(parameters.size(), false),
      most_recent_(parameters.size(), k_never),
      uses_(parameters.size()) {
  // Source: runtime/zero/parameter_offload.py:242 mark_persistent_parameters.
  std::int64_t total = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::int64_t count = parameters[i].count;
    if (total <= options_.model_persistence_threshold - count && count <= job.train.persistence_threshold) {
      total += count;
      is_persistent_[i] = true;
      persistent_.push_back(i);
    }
  }
}

void Zero3Coordinator::fetch(const HookedModule& module) {
  if (is_recording_) {
    order_.push_back(module.parameters);
    for (const std::size_t parameter : module.parameters) {
      trace_.push_back({parameter, step_});
    }
  }
  gather_missing(module);
  if (!is_recording_) {
    pop_fetched(module);
    prefetch();
  }
  ++step_;
}

void Zero3Coordinator::gather_missing(const HookedModule& module) {
  std::vector<std::size_t> missing;
  for (const std::size_t parameter : module.parameters) {
    if (!is_available_[parameter]) {
      missing.push_back(parameter);
      is_available_[parameter] = true;
      available_count_ += size_of(parameter);
    }
  }
  if (!missing.empty()) {
    gather_(missing);
  }
}

/// Takes the module's parameters off the prefetch queue, unless an earlier prefetch did.
void Zero3Coordinator::pop_fetched(const HookedModule& module) {
  const auto not_yet = std::count_if(module.parameters.begin(), module.parameters.end(),
                                     [&](std::size_t parameter) { return most_recent_[parameter] < step_; });
  std::set<std::size_t> popped;
  while (!queue_.empty() && static_cast<std::ptrdiff_t>(popped.size()) < not_yet) {
    const TracedParameter next = queue_.front();
    queue_.pop_front();
    most_recent_[next.parameter] = next.step;
    popped.insert(next.parameter);
  }
}

/// Source: partitioned_param_coordinator.py:323-386; the set may exceed its limit by one parameter.
void Zero3Coordinator::prefetch() {
  if (options_.prefetch_bucket_size <= 0) {
    return;
  }
  const std::int64_t limit =
      std::min(options_.max_live_parameters - available_count_, options_.prefetch_bucket_size);
  std::vector<std::size_t> fetched;
  std::int64_t count = 0;
  while (!queue_.empty() && count < limit) {
    const TracedParameter next = queue_.front();
    queue_.pop_front();
    most_recent_[next.parameter] = std::max(most_recent_[next.parameter], next.step);
    if (!is_available_[next.parameter]) {
      is_available_[next.parameter] = true;
      fetched.push_back(next.parameter);
      count += size_of(next.parameter);
    }
  }
  if (count > 0) {
    gather_(fetched);
    available_count_ += count;
  }
}

void Zero3Coordinator::release(const HookedModule& module) {
  if (is_recording_) {
    for (const std::size_t parameter : module.parameters) {
      free_parameter(parameter);
    }
    return;
  }
  if (module.parameters.empty()) {
    return;
  }
  const auto [decision, is_new] = release_decisions_.try_emplace(step_);
  if (is_new) {
    decision->second = releasable(module);
  }
  for (const std::size_t parameter : decision->second) {
    free_parameter(parameter);
  }
}

/// Own parameters that are neither persistent, nor prefetched for a later step, nor used again within the
/// reuse distance. Source: partitioned_param_coordinator.py:487-517.
std::vector<std::size_t> Zero3Coordinator::releasable(const HookedModule& module) const {
  std::set<std::size_t> candidates;
  for (const std::size_t parameter : module.parameters) {
    if (!is_persistent_[parameter] && most_recent_[parameter] <= step_) {
      candidates.insert(parameter);
    }
  }
  const auto next = static_cast<std::size_t>(step_);
  std::erase_if(candidates, [&](std::size_t parameter) {
    const std::vector<std::size_t>& uses = uses_[parameter];
    const auto use = std::lower_bound(uses.begin(), uses.end(), next);
    return use != uses.end() &&
           traversed_before_[*use] - traversed_before_[next] < options_.max_reuse_distance;
  });
  return {candidates.begin(), candidates.end()};
}

void Zero3Coordinator::free_parameter(std::size_t parameter) {
  if (!is_available_[parameter]) {
    return;
  }
  is_available_[parameter] = false;
  available_count_ -= size_of(parameter);
  if (on_release) {
    on_release(parameter);
  }
}

void Zero3Coordinator::complete_trace() {
  is_recording_ = false;
  traversed_before_.assign(1, 0);
  for (std::size_t at = 0; at < order_.size(); ++at) {
    std::int64_t count = 0;
    for (const std::size_t parameter : order_[at]) {
      uses_[parameter].push_back(at);
      count += size_of(parameter);
    }
    traversed_before_.push_back(traversed_before_.back() + count);
  }
}

void Zero3Coordinator::end_backward() {
  if (is_recording_) {
    complete_trace();
  }
  queue_.assign(trace_.begin(), trace_.end());
  std::fill(most_recent_.begin(), most_recent_.end(), k_never);
  step_ = 0;
  available_count_ = 0;
}

void Zero3Coordinator::step() {
  for (std::size_t parameter = 0; parameter < parameters_->size(); ++parameter) {
    free_parameter(parameter);
  }
  for (const std::size_t parameter : persistent_) {
    is_available_[parameter] = true;
  }
}

}  // namespace commlens::deepspeed
