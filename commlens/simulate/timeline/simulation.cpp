#include "commlens/simulate/timeline/simulation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "commlens/model/kernels.hpp"
#include "commlens/network/simgrid.hpp"
#include "commlens/simulate/machine_hardware.hpp"
#include "commlens/simulate/timeline/account.hpp"
#include "commlens/simulate/timeline/call_flows.hpp"
#include "commlens/simulate/timeline/call_speeds.hpp"
#include "commlens/simulate/timeline/job_rates.hpp"
#include "commlens/simulate/timeline/machine_calls.hpp"
#include "commlens/simulate/timeline/simgrid_calls.hpp"
#include "commlens/simulate/timeline/timeline.hpp"

namespace commlens {
namespace {

/// Which end of their intervals times are taken from: -1 the lower, 0 the middle, 1 the upper.
struct Ends {
  int kernels = 0;
  int calls = 0;
};
constexpr std::array<Ends, 5> k_runs = {{{0, 0}, {-1, -1}, {-1, 1}, {1, -1}, {1, 1}}};

// Of one step: picoseconds of a few hundred of them fit into 63 bits.
constexpr double k_most_seconds = 1e4;
constexpr std::int64_t k_most_steps = 20'000'000;  // of all iterations: some GB

double us_at(const CollectiveTime& time, int end) {
  return end == 0 ? time.us : end < 0 ? time.low_us : time.high_us;
}

/// What a work computes: of attention, what a causal mask leaves.
double unmasked_flops(const PlanWork& work) {
  double flops = 0;
  for (const Kernel& kernel : work.kernels) {
    flops += commlens::unmasked_flops(kernel).value;
  }
  return flops;
}

/// The figures of one run.
struct Run {
  double seconds = 0;
  double tokens_per_second = 0;
  double mfu = 0;
  double compute = 0;
  double exposed = 0;
  double waiting = 0;
  std::map<RankAccount::Key, RankAccount::Calls> calls;
};

void include(Estimate& figure, double value, bool is_first) {
  if (is_first) {
    figure = {value, value, value};
  }
  figure.low = std::min(figure.low, value);
  figure.high = std::max(figure.high, value);
}

class Simulator {
 public:
  Simulator(const Plan& plan, const SimulationOptions& options, const RunCalibration& calibration,
            std::optional<Topology> topology)
      : plan_(plan),
        options_(options),
        topology_(std::move(topology)),
        rates_(job_rates(plan.job, options.dtype, *options.machine, calibration)),
        calls_(*options.machine, options.lender, options.library),
        ranks_(simulated_ranks(plan, per_node(), options.collapse, topology_ ? &*topology_ : nullptr)),
        iteration_(plan.steady_iteration()) {
    if (options.contention == Contention::flows) {
      speeds_.emplace(*topology_, plan, ranks_);
    }
  }

  Result<Simulation> result() {
    Simulation simulation;
    simulation.iteration = iteration_;
    simulation.iterations = options_.iterations;
    simulation.compute_provenance = rates_.provenance;
    if (options_.overlaps_tensor) {
      simulation.compute_provenance +=
          fmt::format("; of tensor messages {:.0f} % show beside matrix products", 100 * rates_.tensor_shown);
    }
    simulation.library = calls_.text();
    simulation.classes = static_cast<std::int64_t>(ranks_.classes.size());
    simulation.contention = options_.contention;
    simulation.assumptions = topology_ ? topology_->assumptions() : std::vector<std::string>();
    std::string error = too_many_steps();
    for (const Ends& ends : k_runs) {
      const StepCosts step_costs = costs(ends);
      const Result<std::vector<ClassTimeline>> lines =
          error_.empty() ? timeline(plan_, ranks_, repeated(), step_costs) : failure(error_);
      if (!lines || !error_.empty()) {
        error = lines ? error_ : lines.error().message;
        break;
      }
      const bool is_first = &ends == k_runs.data();
      if (!is_first && !options_.has_intervals) {
        break;
      }
      add(simulation, run_of(*lines), is_first);
      if (is_first) {
        simulation.trace = trace_of(*lines);
      }
    }
    finish(simulation);
    return error.empty() ? Result<Simulation>(std::move(simulation)) : failure(error);
  }

 private:
  std::int64_t per_node() const { return static_cast<std::int64_t>(options_.machine->ranks_per_node.value); }

  StepCosts costs(Ends ends) {
    StepCosts costs;
    const double kernels = std::exp(rates_.spread * ends.kernels) * jitter();
    work_ticks_.resize(plan_.works.count());
    for (std::size_t row = 0; row < plan_.works.count(); ++row) {
      const PlanWork& work = plan_.works[WorkId{static_cast<std::uint32_t>(row)}];
      // At the peak at best, whatever the interval says.
      const double seconds =
          std::max(work_seconds(rates_, work) * kernels, unmasked_flops(work) / rates_.peak_of_dtype);
      if (!(seconds < k_most_seconds)) {
        error_ = fmt::format("a rank computes for {:.2g} s without a message; times end at {:.0g} s", seconds,
                             k_most_seconds);
      }
      work_ticks_[row] = std::llround(std::min(seconds, k_most_seconds) * k_ticks_per_second);
    }
    costs.work = [this](const SimulatedClass&, WorkId work) {
      return work_ticks_[static_cast<std::size_t>(work)];
    };
    costs.call = [this, ends](const ClassGroup& group, OpId op) {
      const CollectiveTime& time = calls_.time(plan_.tables.op(op), group);
      if (!calls_.error().empty()) {
        error_ = calls_.error();
      }
      constexpr double ticks_per_us = 1e6;
      const double shown = shows_in_part(op) ? rates_.tensor_shown : 1;
      return static_cast<Ticks>(std::llround(us_at(time, ends.calls) * shown * ticks_per_us));
    };
    costs.held_share = rates_.held_share;
    if (speeds_) {
      costs.speeds = [this](std::span<const MovingCall> calls) { return speeds_->of(calls); };
    }
    if (options_.contention == Contention::simgrid) {
      costs.player = played_calls();
    }
    return costs;
  }

  bool shows_in_part(OpId op) const {
    return options_.overlaps_tensor && plan_.tables.groups.axis(plan_.tables.op(op).group) == Axis::tp;
  }

  /// A SimGrid of its own for each run, at time 0.
  CallPlayer played_calls() {
    Result<std::unique_ptr<SimgridCalls>> calls = SimgridCalls::start(*topology_, plan_, ranks_);
    if (!calls) {
      error_ = calls.error().message;
      return {};
    }
    simgrid_ = std::move(*calls);
    return simgrid_->player();
  }

  double jitter() const {
    const auto ranks = static_cast<double>(plan_.job.layout.ranks);
    return 1 + options_.jitter * std::sqrt(2 * std::log(std::max(ranks, 1.0)));
  }

  /// Why so many iterations are not simulated; empty if they are.
  std::string too_many_steps() const {
    std::int64_t steps = 0;
    for (std::size_t row = 0; row < ranks_.classes.size(); ++row) {
      steps += static_cast<std::int64_t>(steps_of(row));
    }
    const std::int64_t most = std::max<std::int64_t>(k_most_steps / std::max<std::int64_t>(steps, 1) - 2, 1);
    return options_.iterations <= most ? ""
                                       : fmt::format(
                                             "--iterations {}: an iteration of this job has {} steps of {} "
                                             "classes of ranks; at most {} are "
                                             "simulated together",
                                             options_.iterations, steps, ranks_.classes.size(), most);
  }

  /// The iteration before those that count, these, and one after them.
  std::vector<Iteration> repeated() const {
    return std::vector<Iteration>(static_cast<std::size_t>(options_.iterations + 2), iteration_);
  }

  /// Steps of an iteration of a class.
  StepIndex steps_of(std::size_t row) const {
    const RankClass& ranks = plan_.classes[ranks_.classes[row].plan_class];
    return static_cast<StepIndex>(ranks.at(iteration_).steps.size());
  }

  /// The steps of a class that count: those of all iterations but the first and the last.
  std::pair<StepIndex, StepIndex> counted_steps(std::size_t row) const {
    const StepIndex steps = steps_of(row);
    return {steps, steps * static_cast<StepIndex>(options_.iterations + 1)};
  }

  /// From the end of the last step of the first iteration to that of the last that counts.
  std::pair<Ticks, Ticks> window(const std::vector<ClassTimeline>& lines) const {
    Ticks begin = 0;
    Ticks end = 0;
    for (std::size_t row = 0; row < lines.size(); ++row) {
      const auto [first, past] = counted_steps(row);
      for (StepIndex step = 0; step < past; ++step) {
        Ticks& last = step < first ? begin : end;
        last = std::max(last, lines[row].times[step].finished);
      }
    }
    return {begin, std::max(begin, end)};
  }

  Run run_of(const std::vector<ClassTimeline>& lines) const {
    const auto [begin, end] = window(lines);
    Run run;
    const auto counted = static_cast<double>(options_.iterations);
    run.seconds = static_cast<double>(end - begin) / k_ticks_per_second / counted;
    const auto ranks = static_cast<double>(plan_.job.layout.ranks);
    for (std::size_t row = 0; row < lines.size(); ++row) {
      const double part = static_cast<double>(ranks_.classes[row].count) / ranks;
      const double weight = part / k_ticks_per_second / counted;
      const RankAccount account = rank_account(plan_, lines[row], {begin, end});
      run.compute += account.compute * weight;
      run.exposed += account.exposed * weight;
      run.waiting += account.waiting * weight;
      for (const auto& [key, calls] : account.calls) {
        RankAccount::Calls& sum = run.calls[key];
        sum.calls += calls.calls / (counted + 2) * part;
        sum.moving += calls.moving * weight;
        sum.exposed += calls.exposed * weight;
      }
    }
    if (run.seconds > 0) {
      const double tokens = static_cast<double>(sequences_per_iteration(plan_.job)) *
                            static_cast<double>(plan_.job.model.sequence);
      run.tokens_per_second = tokens / run.seconds / ranks;
      run.mfu = model_flops_of_rank() / run.seconds / rates_.peak_of_dtype;
    }
    return run;
  }

  /// Without what is recomputed; the mean over ranks.
  double model_flops_of_rank() const {
    double flops = 0;
    for (const SimulatedClass& simulated : ranks_.classes) {
      double of_rank = 0;
      for (const PlanStep& step : plan_.classes[simulated.plan_class].at(iteration_).steps) {
        if (step.kind == PlanStep::Kind::work && plan_.works[step.work()].phase != Phase::recompute) {
          of_rank += plan_.works[step.work()].flops.value;
        }
      }
      flops += of_rank * static_cast<double>(simulated.count);
    }
    return flops / static_cast<double>(plan_.job.layout.ranks);
  }

  static void add(Simulation& simulation, const Run& run, bool is_first) {
    include(simulation.seconds, run.seconds, is_first);
    include(simulation.tokens_per_second, run.tokens_per_second, is_first);
    include(simulation.mfu, run.mfu, is_first);
    include(simulation.compute, run.compute, is_first);
    include(simulation.exposed, run.exposed, is_first);
    include(simulation.waiting, run.waiting, is_first);
    if (is_first) {
      for (const auto& [key, calls] : run.calls) {
        SimulatedCalls& row = simulation.calls.emplace_back();
        row.op = key.first;
        row.axis = key.second;
        row.calls = calls.calls;
      }
    }
    for (SimulatedCalls& row : simulation.calls) {
      const RankAccount::Calls& calls = run.calls.at({row.op, row.axis});
      include(row.moving, calls.moving, is_first);
      include(row.exposed, calls.exposed, is_first);
    }
  }

  /// Sources of the calls' times, the weakest of each row.
  void finish(Simulation& simulation) {
    for (SimulatedCalls& row : simulation.calls) {
      for (const SimulatedClass& simulated : ranks_.classes) {
        for (const PlanStep& step : plan_.classes[simulated.plan_class].at(iteration_).steps) {
          if (step.kind == PlanStep::Kind::call) {
            add_source(row, simulated, plan_.tables.op(step.op()));
          }
        }
      }
    }
    std::stable_sort(
        simulation.calls.begin(), simulation.calls.end(),
        [](const SimulatedCalls& a, const SimulatedCalls& b) { return a.exposed.value > b.exposed.value; });
  }

  void add_source(SimulatedCalls& row, const SimulatedClass& simulated, const CommOp& op) {
    const auto group = simulated.groups.find(op.group);
    if (op.kind != row.op || plan_.tables.groups.axis(op.group) != row.axis ||
        group == simulated.groups.end()) {
      return;
    }
    const CollectiveTime& time = calls_.time(op, group->second);
    if (row.source_of.empty() || time.source > row.source) {
      row.source = time.source;
      row.source_of = time.source_of;
    }
  }

  Trace trace_of(const std::vector<ClassTimeline>& lines) const {
    Trace trace = plan_.tables;
    const Ticks origin = window(lines).first;
    const auto at = [&](Ticks when) {
      constexpr Ticks ticks_per_ns = 1000;
      return std::chrono::nanoseconds((when - origin) / ticks_per_ns);
    };
    for (std::size_t row = 0; row < lines.size(); ++row) {
      RankStream stream;
      const auto [first, past] = counted_steps(row);
      for (StepIndex step = first; step < past; ++step) {
        const auto iteration = iteration_ + static_cast<Iteration>(step / first - 1);
        const PlanStep& planned = lines[row].program.steps[step];
        const StepTimes& times = lines[row].times[step];
        if (planned.kind == PlanStep::Kind::call) {
          stream.events.push_back({planned.op(), iteration, planned.micro_batch});
          stream.times.push_back({at(times.ready), at(times.ready), at(times.finished)});
        } else {
          stream.compute.push_back({at(times.ready), at(times.finished), iteration});
        }
      }
      for (const RankRange& ranks : ranks_.classes[row].ranks) {
        stream.ranks = ranks;
        trace.streams.push_back(stream);
      }
    }
    trace.provenance.source = Source::simulated;
    trace.provenance.progress = true;
    return trace;
  }

  const Plan& plan_;
  SimulationOptions options_;
  std::optional<Topology> topology_;  // where calls share links
  JobRates rates_;
  MachineCalls calls_;
  SimulatedRanks ranks_;
  std::optional<CallSpeeds> speeds_;
  std::unique_ptr<SimgridCalls> simgrid_;
  Iteration iteration_;
  std::string error_;
  std::vector<Ticks> work_ticks_;
};

Result<void> check(const Plan& plan, const Machine& machine) {
  const RunHardware hardware = machine_hardware(machine, plan.job.layout.ranks);
  if (hardware.peak <= 0 || hardware.memory_bandwidth <= 0) {
    return failure(fmt::format("machine {}: processor needs {} to time kernels", machine.name,
                               hardware.peak <= 0 ? "peaks of bf16 or fp16" : "memory_bandwidth"));
  }
  return check_fits(machine, plan.job.layout.ranks);
}

/// The links that calls share; none where they share nothing.
Result<std::optional<Topology>> job_topology(const Plan& plan, const SimulationOptions& options) {
  if (options.contention == Contention::none) {
    return std::nullopt;
  }
  const std::int64_t ranks = plan.job.layout.ranks;
  if (options.contention == Contention::simgrid && ranks > k_simgrid_hosts) {
    return failure(fmt::format("--contention simgrid plays up to {} ranks, not {}: take --contention flows",
                               k_simgrid_hosts, ranks));
  }
  const auto per_node = static_cast<std::int64_t>(options.machine->ranks_per_node.value);
  return check_exchanges(plan)
      .and_then([&] { return Topology::of(*options.machine, ceil_div(ranks, per_node)); })
      .map([](Topology topology) { return std::optional(std::move(topology)); });
}

}  // namespace

std::string_view name_of(Contention contention) {
  return contention == Contention::none ? "none" : contention == Contention::flows ? "flows" : "simgrid";
}

Result<void> check_fits(const Machine& machine, std::int64_t ranks) {
  const double most = machine.nodes ? machine.nodes->value * machine.ranks_per_node.value : 0;
  if (machine.nodes && static_cast<double>(ranks) > most) {
    return failure(fmt::format("{} ranks: {} has {:.0f} ({:.0f} nodes of {:.0f})", ranks, machine.name, most,
                               machine.nodes->value, machine.ranks_per_node.value));
  }
  return {};
}

Result<Simulation> simulated(const Plan& plan, const SimulationOptions& options,
                             const RunCalibration& calibration) {
  return check(plan, *options.machine).and_then([&] {
    return job_topology(plan, options).and_then([&](std::optional<Topology> topology) {
      return Simulator(plan, options, calibration, std::move(topology)).result();
    });
  });
}

}  // namespace commlens
