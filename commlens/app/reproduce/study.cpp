#include "commlens/app/reproduce/study.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "commlens/app/predict.hpp"
#include "commlens/base/check.hpp"
#include "commlens/base/file.hpp"
#include "commlens/frameworks/presets.hpp"
#include "commlens/summary/breakdown.hpp"

namespace commlens::study {
namespace {

void add_rows(std::vector<OpTotal>& totals, const std::vector<BreakdownRow>& rows, bool is_logged) {
  for (const BreakdownRow& row : rows) {
    auto found = std::ranges::find_if(totals, [&](const OpTotal& total) {
      return std::tie(total.op, total.axis, total.group_size) == std::tie(row.kind, row.axis, row.group_size);
    });
    if (found == totals.end()) {
      totals.push_back({row.kind, row.axis, row.group_size, 0, {}, {}, {}});
      found = std::prev(totals.end());
    }
    if (is_logged) {
      found->logged += row.total_message;
    } else {
      found->calls += row.calls;
      found->message += row.total_message;
      found->wire += row.wire_per_rank;
    }
  }
}

}  // namespace

Overrides overrides_of(const Degrees& degrees) {
  Overrides overrides;
  const auto given = [](std::int64_t value) { return value > 0 ? std::optional(value) : std::nullopt; };
  overrides.dp = given(degrees.dp);
  overrides.tp = given(degrees.tp);
  overrides.pp = given(degrees.pp);
  overrides.seq = given(degrees.sequence);
  if (degrees.zero >= 0) {
    overrides.zero = degrees.zero;
  }
  return overrides;
}

std::string scheme_text(int zero) { return zero == 0 ? "DDP" : fmt::format("ZeRO-{}", zero); }

namespace {

std::vector<Iteration> iterations_of(std::int64_t first, std::int64_t last) {
  std::vector<Iteration> iterations;
  for (std::int64_t iteration = first; iteration <= last; ++iteration) {
    iterations.push_back(static_cast<Iteration>(iteration));
  }
  return iterations;
}

}  // namespace

std::vector<OpTotal> totals_of(const Trace& trace, std::int64_t first, std::int64_t last) {
  std::vector<OpTotal> totals;
  BreakdownOptions options{
      .iterations = iterations_of(first, last), .rank = Rank{0}, .by_rule = false, .by_tag = false};
  add_rows(totals, breakdown(trace, options), false);
  options.accounting = Accounting::comms_logger;
  add_rows(totals, breakdown(trace, options), true);
  return totals;
}

std::vector<OpTotal> totals_of(const Plan& plan, std::int64_t first, std::int64_t last) {
  return totals_of(plan.trace_of(iterations_of(first, last)), first, last);
}

std::vector<OpTotal> steady_totals(const Plan& plan) {
  return totals_of(plan, plan.steady_iteration(), plan.steady_iteration());
}

std::vector<OpTotal> last_totals(const Recording& recording) {
  return totals_of(recording.trace, recording.iterations - 1, recording.iterations - 1);
}

OpTotal total_of(const std::vector<OpTotal>& totals, CommKind op) {
  OpTotal sum{op, Axis::unknown, 1, 0, {}, {}, {}};
  for (const OpTotal& total : totals) {
    if (total.op == op && total.group_size > 1) {
      sum.group_size = total.group_size;
      sum.calls += total.calls;
      sum.message += total.message;
      sum.wire += total.wire;
      sum.logged += total.logged;
    }
  }
  return sum;
}

Result<Plan> Study::plan(const std::string& model, const char* framework, const Degrees& degrees) {
  PredictRequest request;
  request.config = {model};
  request.framework = framework;
  request.overrides = overrides_of(degrees);
  return plan_of(request);
}

const Result<SimulatedJob>& Study::simulation(const std::string& model, const char* framework,
                                              const Degrees& degrees, bool collapses) {
  const std::string key = fmt::format("{} {} {} {} {} {} {} {}", model, framework, degrees.dp, degrees.tp,
                                      degrees.pp, degrees.zero, degrees.sequence, collapses);
  const auto found = simulations_.find(key);
  if (found != simulations_.end()) {
    return found->second;
  }
  SimulateRequest request;
  request.config = {model};
  request.framework = framework;
  request.overrides = overrides_of(degrees);
  request.machine = k_machine;
  request.collapse = collapses;
  return simulations_.emplace(key, simulate(request)).first->second;
}

Result<std::string> Study::config_of(const Asked& asked) const {
  if (asked.text.empty()) {
    return asked.config;
  }
  if (jobs_.empty()) {
    return failure("its file needs a directory");
  }
  write_file_atomically(jobs_ / asked.config, asked.text);
  return (jobs_ / asked.config).string();
}

Result<Plan> Study::plan(const Asked& asked) {
  return config_of(asked).and_then([&](const std::string& config) {
    PredictRequest request;
    request.config = {config};
    request.framework = asked.framework;
    request.overrides = asked.overrides;
    return plan_of(request);
  });
}

const Result<SimulatedJob>& Study::simulation(const Asked& asked, const std::string& machine) {
  const std::string key = fmt::format("{} on {}", asked.arguments(), machine);
  const auto found = simulations_.find(key);
  if (found != simulations_.end()) {
    return found->second;
  }
  Result<SimulatedJob> job = config_of(asked).and_then([&](const std::string& config) {
    SimulateRequest request;
    request.config = {config};
    request.framework = asked.framework;
    request.overrides = asked.overrides;
    request.machine = machine;
    return simulate(request);
  });
  if (job) {
    job->simulation.trace = Trace();  // dozens of them would be held to the end
  }
  return simulations_.emplace(key, std::move(job)).first->second;
}

std::vector<EquationValue> Study::equations_of(const std::string& model, const Degrees& degrees) const {
  std::optional<Job> job = preset(model);
  COMMLENS_CHECK(job.has_value(), "the models of the study are built in");
  job->layout.dp = std::max<std::int64_t>(degrees.dp, 1);
  job->layout.tp = std::max<std::int64_t>(degrees.tp, 1);
  job->layout.pp = std::max<std::int64_t>(degrees.pp, 1);
  job->layout.ranks = job->layout.dp * job->layout.tp * job->layout.pp;
  job->train.zero_stage = std::max(degrees.zero, 0);
  job->train.micro_batches = std::max<std::int64_t>(job->train.micro_batches, 1);
  job->model = with_padded_vocab(job->model, job->layout.tp);
  if (degrees.sequence > 0) {
    job->model.sequence = degrees.sequence;
  }
  return equations(*job);
}

std::optional<EquationValue> Study::equation(const std::string& number, const std::string& model,
                                             const Degrees& degrees) const {
  const std::vector<EquationValue> values = equations_of(model, degrees);
  const auto found = std::ranges::find(values, number, &EquationValue::equation);
  return found == values.end() ? std::nullopt : std::optional(*found);
}

const Recording* Study::recording(std::string_view name) const {
  const auto found = std::ranges::find(recordings_, name, &Recording::name);
  return found == recordings_.end() ? nullptr : &*found;
}

Series printed_series(const std::string& equations) {
  return {fmt::format("{} as printed", equations), Evidence::exact, "the paper's equation in fp16 bytes"};
}

Series exact_series(const std::string& equations) {
  return {fmt::format("{} corrected", equations), Evidence::exact,
          "the equation with the true parameter count and the terms that it lacks, fp16"};
}

Series deepspeed_series() {
  return {"DeepSpeed 0.14.0", Evidence::exact,
          "every call by the rules of DeepSpeed 0.14.0, which were checked on recorded runs of it"};
}

Series neox_series() {
  return {"GPT-NeoX on DeepSpeed 0.14.0", Evidence::exact,
          "every call by the rules of GPT-NeoX 4bc66703 on DeepSpeed 0.14.0, which were checked on recorded "
          "runs of it"};
}

Series golden_series(const GoldenRun& run) {
  return {fmt::format("{}, {} on {} ranks", run.framework, run.model, run.ranks),
          Evidence::recorded_framework, fmt::format("rank 0 of the recording tests/golden/{}", run.name)};
}

Series recorded_series(const Recording& recording) {
  return {recording.title, Evidence::recorded_here,
          fmt::format("`{}`, {} of {} calls as predicted", recording.command, recording.equal_calls,
                      recording.calls)};
}

Series simulated_series(const SimulatedJob& job) {
  const Estimate& seconds = job.simulation.seconds;
  return {fmt::format("simulated on {}", job.machine.title), Evidence::simulated,
          fmt::format("on the machine file {} with {}; kernels: {}", job.machine.name, job.simulation.library,
                      job.simulation.compute_provenance),
          1 - seconds.low / seconds.value, seconds.high / seconds.value - 1};
}

Bytes fp16_bytes(double elements) { return {std::llround(elements) * size_of(DType::fp16)}; }

}  // namespace commlens::study
