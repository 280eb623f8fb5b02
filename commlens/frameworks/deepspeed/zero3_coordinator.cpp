#include "commlens/frameworks/deepspeed/zero3_coordinator.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "commlens/frameworks/deepspeed/behaviour.hpp"

namespace commlens::deepspeed {
namespace {

constexpr std::int64_t k_never = std::numeric_limits<std::int64_t>::min();

/// Parameters that stay gathered. Source: runtime/zero/parameter_offload.py:242 mark_persistent_parameters.
std::vector<std::size_t> small_parameters(const LocalParameters& parameters, const Job& job) {
  std::vector<std::size_t> small;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::int64_t count = parameters[i].count;
    if (total <= options(job).model_persistence_threshold - count &&
        count <= job.train.persistence_threshold) {
      total += count;
      small.push_back(i);
    }
  }
  return small;
}

}  // namespace

Zero3Coordinator::Zero3Coordinator(const LocalParameters& parameters, std::vector<HookedModule> modules,
                                   const Job& job)
    : parameters_(&parameters),
      modules_(std::move(modules)),
      options_(options(job)),
      checks_at_forward_(behaviour(job).checks_trace_at_forward),
      counts_from_step_(behaviour(job).counts_from_step),
      releases_leftovers_(behaviour(job).releases_leftovers),
      persistent_(small_parameters(parameters, job)),
      is_persistent_(parameters.size(), false),
      is_available_(parameters.size(), false),
      is_in_flight_(parameters.size(), false),
      active_(parameters.size()) {
  for (const std::size_t parameter : persistent_) {
    is_persistent_[parameter] = true;
  }
  for (Traced* traced : {&training_, &evaluation_}) {
    traced->mode = checks_at_forward_ ? Mode::invalid : Mode::recording;
    traced->most_recent.assign(parameters.size(), k_never);
  }
  if (options_.sequential_gather) {
    options_.prefetch_bucket_size = 1;  // runtime/engine.py:2471 of 0.18.5
  }
}

void Zero3Coordinator::start_forward(bool trains) {
  now_ = trains || checks_at_forward_ ? &training_ : &evaluation_;
  if (checks_at_forward_) {
    reset_step();
  }
}

void Zero3Coordinator::end_evaluation() {
  if (!checks_at_forward_) {
    reset_step();
    now_ = &training_;
  }
}

void Zero3Coordinator::before_last_reduction() {
  if (!checks_at_forward_) {
    reset_step();
  }
}

void Zero3Coordinator::reset_step() {
  drop_in_flight();
  const auto check = [&](std::size_t numbers) { on_check(static_cast<std::int64_t>(numbers)); };
  if (now_->mode != Mode::complete) {
    if (now_->mode == Mode::recording || checks_at_forward_) {
      check(now_->order.size());
    }
    if (now_->mode == Mode::recording) {
      complete();
      check(now_->parameters.size());
      check(now_->parameters.size());
    } else {
      now_->mode = Mode::recording;
    }
  }
  now_->queue.assign(now_->parameters.begin(), now_->parameters.end());
  std::fill(now_->most_recent.begin(), now_->most_recent.end(), k_never);
  now_->step = 0;
  if (!counts_from_step_) {
    now_->count = 0;
  }
}

void Zero3Coordinator::complete() {
  now_->parameters.clear();
  for (std::size_t step = 0; step < now_->order.size(); ++step) {
    for (const std::size_t parameter : modules_[now_->order[step]].parameters) {
      now_->parameters.push_back({parameter, static_cast<std::int64_t>(step)});
    }
  }
  now_->own = uses(&HookedModule::own);
  const auto is_leaf = [](const HookedModule& module) { return module.is_leaf; };
  now_->below = std::any_of(modules_.begin(), modules_.end(), is_leaf) ? uses(&HookedModule::below) : Uses{};
  now_->mode = Mode::complete;
}

Zero3Coordinator::Uses Zero3Coordinator::uses(std::vector<std::size_t> HookedModule::* parameters) const {
  Uses uses{{0}, std::vector<std::vector<std::int64_t>>(parameters_->size())};
  for (std::size_t step = 0; step < now_->order.size(); ++step) {
    std::int64_t traversed = uses.traversed.back();
    for (const std::size_t parameter : modules_[now_->order[step]].*parameters) {
      uses.steps[parameter].push_back(static_cast<std::int64_t>(step));
      traversed += size_of(parameter);
    }
    uses.traversed.push_back(traversed);
  }
  return uses;
}

void Zero3Coordinator::drop_in_flight() {
  for (std::size_t parameter = 0; parameter < is_in_flight_.size(); ++parameter) {
    if (is_in_flight_[parameter]) {
      is_in_flight_[parameter] = false;
      free_parameter(parameter);
    }
  }
}

void Zero3Coordinator::invalidate() {
  now_->mode = Mode::invalid;
  now_->order.clear();
  now_->parameters.clear();
  now_->queue.clear();
  std::fill(now_->most_recent.begin(), now_->most_recent.end(), k_never);
  drop_in_flight();
}

/// A complete trace that the pass does not follow is given up. Source: trace_prologue.
void Zero3Coordinator::expect(std::size_t module) {
  const auto step = static_cast<std::size_t>(now_->step);
  if (now_->mode == Mode::complete && (step >= now_->order.size() || now_->order[step] != module)) {
    invalidate();
  }
}

void Zero3Coordinator::fetch(std::size_t module, Pass pass) {
  expect(module);
  if (now_->mode == Mode::recording) {
    now_->order.push_back(module);
  }
  if (pass == Pass::backward) {
    std::erase(backward_, module);
    backward_.push_back(module);
  }
  const HookedModule& hooked = modules_[module];
  gather_missing(hooked);
  for (const std::size_t parameter : hooked.parameters) {
    active_[parameter].insert(module);
    is_in_flight_[parameter] = false;
  }
  if (pass == Pass::recompute) {
    attribute(hooked);
  }
  if (now_->mode == Mode::complete) {
    pop_fetched(hooked);
    prefetch();
  }
  ++now_->step;
}

/// Frozen parameters that are computed again are released with the module whose backward pass that is.
void Zero3Coordinator::attribute(const HookedModule& module) {
  if (!releases_leftovers_ || backward_.empty()) {
    return;
  }
  for (const std::size_t parameter : module.parameters) {
    if (!parameters_->at(parameter).is_trainable) {
      recomputed_[backward_.back()].insert(parameter);
      active_[parameter].insert(backward_.back());
    }
  }
}

void Zero3Coordinator::start_gather(const std::vector<std::size_t>& set) {
  for (const std::size_t parameter : set) {
    is_available_[parameter] = true;
    is_in_flight_[parameter] = true;
    now_->count += size_of(parameter);
  }
  gather(set);
}

void Zero3Coordinator::gather_missing(const HookedModule& module) {
  std::vector<std::size_t> missing;
  std::copy_if(module.parameters.begin(), module.parameters.end(), std::back_inserter(missing),
               [&](std::size_t parameter) { return !is_available_[parameter]; });
  if (!missing.empty()) {
    start_gather(missing);
  }
}

/// Takes the module's parameters off the prefetch queue, unless an earlier prefetch did.
void Zero3Coordinator::pop_fetched(const HookedModule& module) {
  const auto not_yet =
      std::count_if(module.parameters.begin(), module.parameters.end(),
                    [&](std::size_t parameter) { return now_->most_recent[parameter] < now_->step; });
  std::set<std::size_t> popped;
  while (!now_->queue.empty() && static_cast<std::ptrdiff_t>(popped.size()) < not_yet) {
    const TracedParameter next = now_->queue.front();
    now_->queue.pop_front();
    now_->most_recent[next.parameter] = next.step;
    popped.insert(next.parameter);
  }
}

/// Elements that may yet become available, whose count may be below zero (resets).
std::int64_t Zero3Coordinator::room() const {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::int64_t below_zero = std::min<std::int64_t>(now_->count, 0);
  return options_.max_live_parameters > most + below_zero ? most : options_.max_live_parameters - now_->count;
}

/// The set may exceed its limit by one parameter. Source: partitioned_param_coordinator.py:323-386.
void Zero3Coordinator::prefetch() {
  if (options_.prefetch_bucket_size <= 0) {
    return;
  }
  const std::int64_t limit = std::min(room(), options_.prefetch_bucket_size);
  std::set<std::size_t> fetched;
  std::int64_t count = 0;
  while (!now_->queue.empty() && count < limit) {
    const TracedParameter next = now_->queue.front();
    now_->queue.pop_front();
    now_->most_recent[next.parameter] = std::max(now_->most_recent[next.parameter], next.step);
    if (!is_available_[next.parameter] && fetched.insert(next.parameter).second) {
      count += size_of(next.parameter);
    }
  }
  if (count > 0) {
    start_gather({fetched.begin(), fetched.end()});
  }
}

void Zero3Coordinator::release(std::size_t module, Pass pass) {
  const HookedModule& hooked = modules_[module];
  std::set<std::size_t> parameters(hooked.parameters.begin(), hooked.parameters.end());
  std::set<std::size_t> freed = parameters;
  if (now_->mode == Mode::complete) {
    const std::vector<std::size_t>& decided = decision(module);
    freed = {decided.begin(), decided.end()};
  }
  if (pass == Pass::backward) {
    for (const std::size_t parameter : recomputed_[module]) {
      parameters.insert(parameter);
      if (!is_persistent_[parameter]) {
        freed.insert(parameter);
      }
    }
    recomputed_.erase(module);
    std::erase(backward_, module);
  }
  for (const std::size_t parameter : parameters) {
    active_[parameter].erase(module);
    if (freed.contains(parameter)) {
      free_parameter(parameter);
    }
  }
}

const std::vector<std::size_t>& Zero3Coordinator::decision(std::size_t module) {
  const auto [decision, is_new] = now_->decisions.try_emplace({module, now_->step});
  if (is_new) {
    decision->second = releasable(module);
  }
  return decision->second;
}

/// Own parameters that are neither persistent, nor prefetched for a later step, nor used again within the
/// reuse distance. Source: partitioned_param_coordinator.py:487-517.
std::vector<std::size_t> Zero3Coordinator::releasable(std::size_t module) const {
  std::vector<std::size_t> candidates;
  const HookedModule& hooked = modules_[module];
  for (const std::size_t parameter : hooked.parameters) {
    if (!is_persistent_[parameter] && now_->most_recent[parameter] <= now_->step) {
      candidates.push_back(parameter);
    }
  }
  const Uses& uses = hooked.is_leaf ? now_->below : now_->own;
  std::erase_if(candidates, [&](std::size_t parameter) {
    const std::vector<std::int64_t>& steps = uses.steps[parameter];
    const auto next = std::lower_bound(steps.begin(), steps.end(), now_->step);
    return next != steps.end() && uses.traversed.at(static_cast<std::size_t>(*next)) -
                                          uses.traversed.at(static_cast<std::size_t>(now_->step)) <
                                      options_.max_reuse_distance;
  });
  return candidates;
}

void Zero3Coordinator::free_parameter(std::size_t parameter) {
  if (!is_available_[parameter] || is_in_flight_[parameter] || !active_[parameter].empty()) {
    return;
  }
  is_available_[parameter] = false;
  now_->count -= size_of(parameter);
  on_release(parameter);
}

/// Modules whose post-backward hook never fires.
void Zero3Coordinator::end_backward() {
  while (releases_leftovers_ && !backward_.empty()) {
    const std::size_t module = backward_.back();
    backward_.pop_back();
    std::set<std::size_t> parameters(modules_[module].parameters.begin(), modules_[module].parameters.end());
    parameters.merge(recomputed_[module]);
    recomputed_.erase(module);
    for (const std::size_t parameter : parameters) {
      active_[parameter].erase(module);
      if (!is_persistent_[parameter]) {
        free_parameter(parameter);
      }
    }
  }
  backward_.clear();
}

void Zero3Coordinator::step() {
  for (std::size_t parameter = 0; parameter < parameters_->size(); ++parameter) {
    is_in_flight_[parameter] = false;
    active_[parameter].clear();
    free_parameter(parameter);
  }
  if (counts_from_step_) {
    now_->count = 0;
  }
}

bool Zero3Coordinator::take_away(std::size_t parameter) {
  const bool was_missing = !is_available_[parameter];
  is_available_[parameter] = false;
  on_release(parameter);
  return was_missing;
}

void Zero3Coordinator::keep_persistent() {
  for (const std::size_t parameter : persistent_) {
    is_available_[parameter] = true;
  }
}

Zero3Coordinator::State Zero3Coordinator::state() const {
  return {is_available_, training_.count, training_.decisions.size(), training_.mode};
}

}  // namespace commlens::deepspeed
