#include "commlens/app/predict.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/app/job_source.hpp"
#include "commlens/app/json_result.hpp"
#include "commlens/app/predicted_times.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/formats/calls_jsonl/export.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/read_config.hpp"
#include "commlens/report/breakdown_report.hpp"

namespace commlens {
namespace {

Result<void> check_view(const PredictionView& view) {
  constexpr std::array<std::string_view, 3> iterations = {"init", "cold", "steady"};
  return std::find(iterations.begin(), iterations.end(), view.iteration) != iterations.end()
             ? Result<void>()
             : failure(fmt::format("--iteration {}: choose init, cold or steady", view.iteration));
}

Result<void> check_rank(const PredictionView& view, const Plan& plan) {
  if (view.rank && (view.rank->value < 0 || view.rank->value >= plan.job.layout.ranks)) {
    return failure(
        fmt::format("--rank {}: the job has ranks 0 to {}", view.rank->value, plan.job.layout.ranks - 1));
  }
  return {};
}

/// Calls of initialisation and all iterations in the program of one rank of each class.
std::int64_t planned_calls(const Plan& plan, std::int64_t iterations, bool times_ranks) {
  double calls = 0;
  for (const RankClass& ranks : plan.classes) {
    double of_rank = static_cast<double>(ranks.init.calls());
    const auto cold = static_cast<std::int64_t>(ranks.iterations.size());
    for (std::int64_t at = 0; at < std::min(cold, iterations); ++at) {
      of_rank += static_cast<double>(ranks.iterations[static_cast<std::size_t>(at)].calls());
    }
    of_rank += static_cast<double>(std::max<std::int64_t>(iterations - cold, 0)) *
               static_cast<double>(ranks.iterations.back().calls());
    calls += of_rank * (times_ranks ? static_cast<double>(ranks.ranks.count()) : 1.0);
  }
  return static_cast<std::int64_t>(std::min(calls, 9.0e18));
}

FrameworkChoice choice_of(const std::vector<std::string>& config, const std::string& framework) {
  return !framework.empty()             ? FrameworkChoice::flag
         : is_case_file(config.front()) ? FrameworkChoice::case_file
                                        : FrameworkChoice::fallback;
}

Result<Job> read_job(const std::vector<std::string>& config, const std::string& name) {
  const Result<std::string> framework = checked_framework(name);
  return framework ? read_config(config, *framework) : tl::unexpected(framework.error());
}

/// The configuration as one of the frameworks of a sweep runs it.
struct SweptJob {
  std::string framework;  // empty: the configuration's own
  Job job;
};

Result<std::vector<SweptJob>> read_jobs(const SweepRequest& request) {
  if (const Result<void> accepted = check_takes_config(request.config); !accepted) {
    return tl::unexpected(accepted.error());
  }
  std::vector<SweptJob> jobs;
  for (const std::string& name : request.frameworks) {
    Result<Job> job = read_job(request.config, name);
    if (!job) {
      return tl::unexpected(job.error());
    }
    jobs.push_back({name, std::move(*job)});
  }
  return jobs;
}

SweepRow row_of(Planner& planner, const SweepRequest& request, const SweptJob& swept,
                const Combination& combination) {
  const Result<Plan> plan = planner.plan(swept.job, combination.overrides);
  const Result<void> fits = plan ? check_rank(request.view, *plan) : tl::unexpected(plan.error());
  SweepRow row;
  if (fits) {
    row = sweep_row(predicted(*plan, request.view));
  } else {
    row.framework = swept.job.framework;
    row.reason = fits.error().message;
  }
  row.swept = combination.swept;
  if (request.frameworks.size() > 1) {
    row.swept.insert(row.swept.begin(), {"--framework", swept.framework});
  }
  return row;
}

/// What the calls of all ranks, or of one, take as JSON Lines: each names the ranks of its group.
double written_bytes(const Trace& trace, std::optional<Rank> rank) {
  constexpr double line = 200;
  constexpr double member = 7;  // "102399,"
  double bytes = 0;
  for (const RankStream& stream : trace.streams) {
    double of_rank = 0;
    for (const CommEvent& event : stream.events) {
      of_rank += line + member * static_cast<double>(trace.groups.size(trace.op(event.op).group));
    }
    bytes += of_rank * static_cast<double>(selected_ranks(stream.ranks, rank).count());
  }
  return bytes;
}

std::string_view accounting_text(Accounting accounting) {
  return accounting == Accounting::messages ? "messages" : "deepspeed-logger";
}

}  // namespace

Result<Plan> plan_of(const PredictRequest& request) {
  if (const Result<void> accepted = check_takes_config(request.config); !accepted) {
    return tl::unexpected(accepted.error());
  }
  const Result<Job> job = read_job(request.config, request.framework);
  if (!job) {
    return tl::unexpected(job.error());
  }
  Result<Plan> plan = Planner(request.events).plan(*job, request.overrides);
  const Result<void> fits = plan ? check_rank(request.view, *plan) : tl::unexpected(plan.error());
  return fits ? std::move(plan) : tl::unexpected(fits.error());
}

Result<Prediction> predict(const PredictRequest& request) {
  return plan_of(request).and_then([&](const Plan& plan) { return predict(request, plan); });
}

Result<Prediction> predict(const PredictRequest& request, const Plan& plan) {
  PredictionView view = request.view;
  view.framework_choice = choice_of(request.config, request.framework);
  return check_view(view).and_then([&] {
    Prediction prediction = predicted(plan, view);
    const Result<void> timed =
        request.machine.empty() ? Result<void>() : add_times(prediction, request.machine, request.library);
    return timed ? Result<Prediction>(std::move(prediction)) : tl::unexpected(timed.error());
  });
}

Result<std::vector<Iteration>> planned_iterations(const Plan& plan) {
  constexpr std::int64_t most = 100'000'000;  // held in memory at once, about 1.2 GB
  const std::int64_t count = plan.job.iterations;
  if (planned_calls(plan, count, false) > most) {
    return failure(fmt::format("{} iterations are more than {} calls of one rank; lower --iterations", count,
                               with_commas(most)));
  }
  std::vector<Iteration> iterations;
  for (Iteration iteration = k_init_iteration; iteration < count; ++iteration) {
    iterations.push_back(iteration);
  }
  return iterations;
}

Result<void> check_written_calls(const Plan& plan, std::optional<Rank> rank, std::string_view flag) {
  const Result<std::vector<Iteration>> iterations = planned_iterations(plan);
  if (!iterations) {
    return tl::unexpected(iterations.error());
  }
  const Trace trace = plan.trace_of(*iterations);
  const double bytes = written_bytes(trace, rank);
  if (bytes <= static_cast<double>(k_most_written.value)) {
    return {};
  }
  constexpr double giga = 1e9;
  return failure(fmt::format(
      "{}: the calls of {} would take about {} GB, and a file gets at most {:.0f}; {}lower "
      "--iterations, or write to standard output",
      flag,
      rank ? fmt::format("rank {}", rank->value)
           : fmt::format("{} ranks", with_commas(plan.job.layout.ranks)),
      with_commas(static_cast<std::int64_t>(bytes / giga)), static_cast<double>(k_most_written.value) / giga,
      rank ? "" : "choose one rank with --rank, "));
}

Result<void> write_calls(const Plan& plan, std::optional<Rank> rank, const formats::TextSink& sink,
                         const Events& events) {
  const Result<std::vector<Iteration>> iterations = planned_iterations(plan);
  if (!iterations) {
    return tl::unexpected(iterations.error());
  }
  const Trace trace = plan.trace_of(*iterations);
  Task task(events, "writing calls", rank ? 0 : planned_calls(plan, plan.job.iterations, true));
  formats::calls_jsonl::write(trace, {.rank = rank}, [&](std::string_view block) {
    sink(block);
    task.add(std::count(block.begin(), block.end(), '\n'));
  });
  return {};
}

Result<Sweep> sweep(const SweepRequest& request) {
  if (const Result<void> checked = check_view(request.view); !checked) {
    return tl::unexpected(checked.error());
  }
  if (request.frameworks.empty() || request.combinations.empty()) {
    return failure("a sweep needs at least one framework and one combination of settings");
  }
  const Result<std::vector<SweptJob>> jobs = read_jobs(request);
  if (!jobs) {
    return tl::unexpected(jobs.error());
  }
  const PredictionView& view = request.view;
  Sweep result;
  result.head = {jobs->front().job.model.name, view.iteration, std::string(accounting_text(view.accounting)),
                 view.rank.value_or(Rank{0}).value, view.ranks_per_node > 0};
  Planner planner(request.events, request.combinations.size() * jobs->size() == 1);
  {
    Task task(request.events, "predicting",
              static_cast<std::int64_t>(jobs->size() * request.combinations.size()));
    for (const SweptJob& job : *jobs) {
      for (const Combination& combination : request.combinations) {
        result.rows.push_back(row_of(planner, request, job, combination));
        task.add(1);
      }
    }
  }
  const auto is_impossible = [](const SweepRow& row) { return !row.reason.empty(); };
  if (std::all_of(result.rows.begin(), result.rows.end(), is_impossible)) {
    return failure(fmt::format("none of the {} combinations is possible; the first: {}", result.rows.size(),
                               result.rows.front().reason));
  }
  if (const std::string uneven = uneven_work_text(result.rows); !uneven.empty()) {
    request.events.warn(uneven);
  }
  return result;
}

std::string rendered(const Prediction& prediction, Format format, const TextStyle& style) {
  return in_format(
      format, [&] { return prediction_text(prediction, style); }, [&] { return prediction_json(prediction); },
      [&] { return breakdown_csv(prediction.trace, prediction.rows, prediction.view.ranks_per_node > 0); });
}

std::string rendered(const Sweep& sweep, Format format, const TextStyle& style) {
  return in_format(
      format, [&] { return sweep_text(sweep.head, sweep.rows, style); },
      [&] { return sweep_json(sweep.head, sweep.rows); }, [&] { return sweep_csv(sweep.head, sweep.rows); });
}

}  // namespace commlens
