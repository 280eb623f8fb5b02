// Jobs of today: what they send by the rules of their frameworks, and their iteration simulated on machines.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "commlens/app/reproduce/items.hpp"
#include "commlens/app/reproduce/machine_table.hpp"
#include "commlens/machine/machines.hpp"
#include "commlens/summary/breakdown.hpp"

namespace commlens::study {
namespace {

/// A job with its name in figures.
struct TodayJob {
  std::string model;
  std::string framework;
  Asked asked;
  std::string name() const { return fmt::format("{}, {}", model, framework); }
};

TodayJob titan_job(const char* model, const char* config, std::int64_t ranks, std::int64_t ep) {
  TodayJob job{model, "torchtitan 0.3.0", {config, "torchtitan", {}}};
  job.asked.overrides.ranks = ranks;
  if (ep > 1) {
    job.asked.overrides.ep = ep;
    job.asked.overrides.micro_batch = 1;
  }
  return job;
}

std::vector<TodayJob> today_jobs() {
  std::vector<TodayJob> jobs = {titan_job("Llama-3 8B", "llama3-8b", 64, 1),
                                titan_job("Llama-3 70B", "llama3-70b", 256, 1),
                                titan_job("Llama-3.1 405B", "llama3-405b", 512, 1),
                                titan_job("Mixtral 8x7B", "mixtral-8x7b", 64, 8),
                                titan_job("DeepSeek-V3", "deepseek-v3", 512, 64),
                                {"Mixtral 8x7B", "Megatron 0.19", {"megatron/mixtral-8x7b", "", {}}},
                                {"Llama-3 70B", "Megatron 0.19", {"megatron/llama3-70b", "", {}}},
                                {"Llama-3.1 405B", "Megatron 0.19", {"megatron/llama3.1-405b", "", {}}},
                                {"DeepSeek-V3", "Megatron 0.19", {"megatron/deepseek-v3", "", {}}}};
  // A quarter and an eighth of the recipes' batches: more micro-batches take a minute to simulate on machines
  // whose nodes do not divide the groups.
  jobs[jobs.size() - 2].asked.overrides.global_batch = 128;
  jobs.back().asked.overrides.global_batch = 1024;
  for (const PaperModel& model : k_models) {
    for (const char* const version : {"0.14.0", "0.19.8"}) {
      TodayJob job{model.name,
                   fmt::format("DeepSpeed {}", version),
                   {model.name, fmt::format("deepspeed@{}", version), {}}};
      job.asked.overrides.ranks = 16;
      job.asked.overrides.zero = 3;
      jobs.push_back(job);
    }
  }
  return jobs;
}

/// "64 ranks, dp 8, tp 2, pp 4, ep 8, 16 micro-batches".
std::string axes_text_of(const Job& job) {
  const ParallelLayout& layout = job.layout;
  std::string text = fmt::format("{} ranks, dp {}", with_commas(layout.ranks), layout.dp);
  for (const auto& [axis, degree] :
       {std::pair("tp", layout.tp), {"pp", layout.pp}, {"cp", layout.cp}, {"ep", layout.ep}}) {
    text += degree > 1 ? fmt::format(", {} {}", axis, degree) : "";
  }
  const std::int64_t micro_batches = job.train.micro_batches;
  return micro_batches > 1 ? text + fmt::format(", {} micro-batches", micro_batches) : text;
}

Series job_series(const Plan& plan, const TodayJob& job) {
  Series series{job.framework, Evidence::exact,
                fmt::format("every call by the rules of {}: `{}`", plan.tables.provenance.framework,
                            job.asked.command())};
  series.unmeasured = plan.unverified;
  return series;
}

/// Calls of rank 0 of one op along one axis, and their sizes.
struct AxisCalls {
  CommKind op = CommKind::other;
  Axis axis;
  std::int64_t group_size = 1;
  std::int64_t calls = 0;
  Bytes smallest;
  Bytes largest;
  Bytes message;
  Bytes wire;
};

std::vector<AxisCalls> calls_of(const Plan& plan) {
  std::vector<AxisCalls> all;
  const Trace trace = plan.trace_of({plan.steady_iteration()});
  for (const BreakdownRow& row : breakdown(trace, {.rank = Rank{0}, .by_rule = false, .by_tag = false})) {
    if (row.no_traffic() || row.kind == CommKind::barrier) {
      continue;
    }
    auto found = std::ranges::find_if(all, [&](const AxisCalls& calls) {
      return calls.op == row.kind && calls.axis == row.axis && calls.group_size == row.group_size;
    });
    if (found == all.end()) {
      all.push_back({row.kind, row.axis, row.group_size, 0, row.message, row.message, {}, {}});
      found = std::prev(all.end());
    }
    found->calls += row.calls;
    found->smallest = std::min(found->smallest, row.message);
    found->largest = std::max(found->largest, row.message);
    found->message += row.total_message;
    found->wire += row.wire_per_rank;
  }
  return all;
}

}  // namespace

ItemResult jobs_today(Study& study) {
  Sheet sheet({"model", "framework", "setting", "bar", "op", "axis", "group_size", "calls_per_rank",
               "smallest_message_bytes", "largest_message_bytes", "message_bytes_per_rank",
               "wire_bytes_per_rank"});
  std::vector<std::string> refused;
  for (const TodayJob& job : today_jobs()) {
    const Result<Plan> plan = study.plan(job.asked);
    if (!plan) {
      refused.push_back(fmt::format("{}: {}.", job.name(), plan.error().message));
      continue;
    }
    for (const AxisCalls& calls : calls_of(*plan)) {
      sheet.add({job.model, job.framework, axes_text_of(plan->job), job.name(), name_of(calls.op),
                 calls.axis.name(), calls.group_size, calls.calls, calls.smallest, calls.largest,
                 calls.message, calls.wire},
                job_series(*plan, job));
    }
  }
  Item item{whole_of(sheet,
                     "What jobs of today send in an iteration, of rank 0, by operation and axis, with the "
                     "least and the largest message: Llama-3 as torchtitan trains it and as Megatron's "
                     "recipes do, mixtures of experts by both, and the paper's own four models with ZeRO-3 "
                     "on 16 ranks by DeepSpeed of 2024 and of today.",
                     {FigureKind::bars,
                      bar_options("bar", "op", true,
                                  {"wire_bytes_per_rank", "message_bytes_per_rank", "calls_per_rank"}),
                      {"model", "framework", "series", "evidence", "provenance"}}),
            {}};
  item.whole.notes.insert(item.whole.notes.begin(), refused.begin(), refused.end());
  item.whole.notes.emplace_back(
      "Megatron's Llama-3.1 405B and DeepSeek-V3 have a quarter and an eighth of the micro-batches of their "
      "recipes: what a step sends once weighs more, and so does the pipeline's bubble.");
  return item;
}

namespace {

/// Memory of a device of the machine; 0: not known.
Bytes device_memory(const Machine& machine) {
  constexpr double bytes_per_gib = 1073741824;
  const std::optional<Quantity>& memory = machine.processor.memory;
  return {memory ? std::llround(memory->value * bytes_per_gib) : 0};
}

bool has_room(const SimulatedJob& simulated) {
  const Bytes device = device_memory(simulated.machine);
  return device.value == 0 || simulated.memory.total() <= device;
}

/// The job's name; bars say of what would not fit that it is a time nobody could measure.
std::string bar_text(const TodayJob& job, const SimulatedJob& simulated) {
  return job.name() + (has_room(simulated) ? "" : " (does not fit)");
}

void add_simulated(Sheet& sheet, const TodayJob& job, const SimulatedJob& simulated) {
  const Simulation& simulation = simulated.simulation;
  Series series = simulated_series(simulated);
  series.name = job.name();
  series.unmeasured = simulated.unverified;
  const double whole = simulation.seconds.value;
  const auto add = [&](const char* panel, const std::string& part, const Estimate& time, Cell exposed) {
    sheet.add({panel, job.model, job.framework, bar_text(job, simulated), axes_text_of(simulated.job), part,
               time.value, time.low, time.high, std::move(exposed), time.value / whole, Cell(), Cell(),
               Cell(), Cell(), Cell()},
              series);
  };
  add("a", "computing", simulation.compute, Cell());
  add("a", "exposed calls", simulation.exposed, Cell());
  add("a", "bubble and waiting", simulation.waiting, Cell());
  for (const SimulatedCalls& calls : simulation.calls) {
    add("c", fmt::format("{} {}", name_of(calls.op), calls.axis.name()), calls.moving, calls.exposed.value);
  }
  sheet.add({"", job.model, job.framework, bar_text(job, simulated), axes_text_of(simulated.job), "iteration",
             whole, simulation.seconds.low, simulation.seconds.high, Cell(), 1.0,
             simulation.tokens_per_second.value, simulation.tokens_per_second.low,
             simulation.tokens_per_second.high, simulated.memory.total(), has_room(simulated) ? "yes" : "no"},
            series);
}

/// What does not go, each reason with the jobs it is of.
class Reasons {
 public:
  void add(const std::string& reason, const std::string& job) {
    const auto found = std::ranges::find(jobs_, reason, &std::pair<std::string, std::string>::first);
    if (found == jobs_.end()) {
      jobs_.emplace_back(reason, job);
    } else {
      found->second += "; " + job;
    }
  }
  std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    for (const auto& [reason, jobs] : jobs_) {
      notes.push_back(fmt::format("{}: {}.", reason, jobs));
    }
    return notes;
  }
  const std::string* first() const { return jobs_.empty() ? nullptr : &jobs_.front().first; }

 private:
  std::vector<std::pair<std::string, std::string>> jobs_;
};

/// All rows, as the files have them.
Drawing job_table() {
  return {FigureKind::bars,
          bar_options("bar", "part", true, {"part_share", "time_s"}),
          {"panel", "model", "framework", "series", "provenance"}};
}

Drawing iteration_table() {
  return {FigureKind::table,
          {},
          {"panel", "model", "framework", "part", "exposed_s", "part_share", "fits",
           "tokens_per_s_low_per_rank", "tokens_per_s_high_per_rank", "series", "evidence", "provenance"}};
}

Drawing calls_drawing() {
  return {
      FigureKind::bars,
      bar_options("bar", "part", true, {"part_share", "time_s", "exposed_s"}),
      {"panel", "model", "framework", "tokens_per_s_per_rank", "tokens_per_s_low_per_rank",
       "tokens_per_s_high_per_rank", "memory_bytes_per_rank", "fits", "series", "evidence", "provenance"}};
}

ItemResult jobs_on(Study& study, const char* machine, const char* id) {
  Sheet sheet({"panel", "model", "framework", Column{"bar", "job"}, "setting", "part", "time_s", "low_s",
               "high_s", "exposed_s", "part_share", "tokens_per_s_per_rank", "tokens_per_s_low_per_rank",
               "tokens_per_s_high_per_rank", "memory_bytes_per_rank", "fits"});
  Reasons reasons;
  std::string title;
  for (const TodayJob& job : today_jobs()) {
    const Result<SimulatedJob>& simulated = study.simulation(job.asked, machine);
    if (!simulated) {
      reasons.add(simulated.error().message, job.name());
      continue;
    }
    title = simulated->machine.title;
    add_simulated(sheet, job, *simulated);
    if (!has_room(*simulated)) {
      reasons.add(
          fmt::format("Would not fit into the {} of a device; the time is what it would take if it did",
                      to_text(device_memory(simulated->machine))),
          fmt::format("{} needs {} a rank", job.name(), to_text(simulated->memory.total())));
    }
  }
  if (sheet.empty()) {
    return no_figure(reasons.first() == nullptr ? "nothing could be simulated" : *reasons.first());
  }
  const Drawing drawing{
      FigureKind::bars,
      bar_options("bar", "part", true, {"part_share", "time_s"}),
      {"panel", "model", "framework", "exposed_s", "tokens_per_s_per_rank", "tokens_per_s_low_per_rank",
       "tokens_per_s_high_per_rank", "memory_bytes_per_rank", "fits", "series", "evidence", "provenance"}};
  Item item{whole_of(sheet,
                     fmt::format("One iteration of the same jobs, simulated on {}: computing, calls in which "
                                 "a rank computes nothing, and waiting, the means over ranks. Every row has "
                                 "its 90 % interval, the tokens a second and the memory of a rank.",
                                 title),
                     job_table()),
            {}};
  item.panels.push_back(panel_of(rows_with(sheet.table(), "panel", "a"), fmt::format("{}-a", id),
                                 "Parts of an iteration", "", drawing));
  item.more.push_back(panel_of(rows_with(sheet.table(), "part", "iteration"), fmt::format("{}-b", id),
                               "Iteration, tokens and memory", "", iteration_table()));
  item.more.push_back(
      panel_of(rows_with(sheet.table(), "panel", "c"), fmt::format("{}-c", id),
               "Calls under way, by operation and axis",
               "Time in which such calls move data over that of the iteration, the mean over ranks. "
               "Calls that overlap count each; exposed: the rank computes nothing meanwhile.",
               calls_drawing()));
  if (const Result<Machine> described = find_machine(machine)) {
    item.more.push_back(machine_table(*described, fmt::format("{}-machine", id)));
  }
  const std::vector<std::string> notes = reasons.notes();
  item.whole.notes.insert(item.whole.notes.begin(), notes.begin(), notes.end());
  return item;
}

}  // namespace

ItemResult jobs_frontier(Study& study) { return jobs_on(study, "frontier", "jobs-frontier"); }
ItemResult jobs_aurora(Study& study) { return jobs_on(study, "aurora", "jobs-aurora"); }
ItemResult jobs_vista(Study& study) { return jobs_on(study, "vista_gh200", "jobs-vista"); }
ItemResult jobs_dgx_h100(Study& study) { return jobs_on(study, "dgx_h100", "jobs-dgx-h100"); }
ItemResult jobs_gb200(Study& study) { return jobs_on(study, "gb200_nvl72", "jobs-gb200"); }

}  // namespace commlens::study
