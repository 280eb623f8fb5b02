#include <algorithm>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/cli/command.hpp"
#include "commlens/cli/job_source.hpp"
#include "commlens/cli/json_result.hpp"
#include "commlens/cli/layout_flags.hpp"
#include "commlens/cli/output_place.hpp"
#include "commlens/cli/prediction.hpp"
#include "commlens/cli/progress.hpp"
#include "commlens/cli/sweep.hpp"
#include "commlens/cli/trace_source.hpp"
#include "commlens/formats/calls_jsonl/export.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/read_config.hpp"
#include "commlens/report/breakdown_report.hpp"

namespace commlens {
namespace {

constexpr const char* k_predict_examples = R"(Examples:
  commlens predict 1.3B --ranks 16 --zero 3
  commlens predict job.yml --framework deepspeed --seq 512,1024,2048 --format csv
  commlens predict 1.3B --ranks 8 --framework neox,megatron --tp 1,2,4,8 --global-batch 64
  commlens predict case.yaml --calls calls.jsonl.gz)";

struct PredictFlags {
  std::vector<std::string> config;
  LayoutFlags layout;
  std::string framework;
  std::string iteration = "steady";
  std::string accounting = "messages";
  std::string calls;
  std::optional<std::int64_t> rank;
  OutputFlags output;
};

PredictionView view_of(const PredictFlags& flags) {
  PredictionView view;
  view.iteration = flags.iteration;
  view.accounting = flags.accounting == "messages" ? Accounting::messages : Accounting::comms_logger;
  view.ranks_per_node = flags.layout.ranks_per_node();
  view.framework_choice = !flags.framework.empty()             ? FrameworkChoice::flag
                          : is_case_file(flags.config.front()) ? FrameworkChoice::case_file
                                                               : FrameworkChoice::fallback;
  if (flags.rank) {
    view.rank = Rank{*flags.rank};
  }
  return view;
}

Result<void> check_rank(const PredictFlags& flags, const Plan& plan) {
  if (flags.rank && *flags.rank >= plan.job.layout.ranks) {
    return failure(
        fmt::format("--rank {}: the job has ranks 0 to {}", *flags.rank, plan.job.layout.ranks - 1));
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

Result<void> write_calls(Console& console, const PredictFlags& flags, const Plan& plan) {
  constexpr std::int64_t most = 100'000'000;  // held in memory at once, about 1.2 GB
  const std::int64_t iterations = plan.job.iterations;
  if (planned_calls(plan, iterations, false) > most) {
    return failure(fmt::format("{} iterations are more than {} calls of one rank; lower --iterations",
                               iterations, with_commas(most)));
  }
  const std::optional<Rank> rank = flags.rank ? std::optional(Rank{*flags.rank}) : std::nullopt;
  const Trace trace = plan.trace(iterations);
  Progress progress(console, "writing calls", rank ? 0 : planned_calls(plan, iterations, true));
  write_blocks(console, flags.calls, [&](const formats::TextSink& sink) {
    formats::calls_jsonl::write(trace, {.rank = rank}, [&](std::string_view block) {
      sink(block);
      progress.add(std::count(block.begin(), block.end(), '\n'));
    });
  });
  return {};
}

Result<ExitCode> predict_one(Console& console, const PredictFlags& flags, const Plan& plan) {
  if (!flags.calls.empty()) {
    if (const Result<void> written = write_calls(console, flags, plan); !written) {
      return tl::unexpected(written.error());
    }
  }
  if (flags.calls == "-" && flags.output.file == "-") {
    return ExitCode::done;
  }
  const Prediction prediction = predicted(plan, view_of(flags));
  std::string text;
  switch (flags.output.kind()) {
    case Format::table:
      text = prediction_text(prediction, style_for(console, flags.output));
      break;
    case Format::json:
      text = json_result(prediction_json(prediction));
      break;
    case Format::csv:
      text = breakdown_csv(prediction.trace, prediction.rows, prediction.view.ranks_per_node > 0);
      break;
  }
  write_result(console, flags.output, text);
  return ExitCode::done;
}

/// The configuration as one of the frameworks of a sweep runs it.
struct SweptJob {
  std::string framework;  // empty: the configuration's own
  Job job;
};

/// One row per combination of a framework and of flags; a combination that cannot be says why.
std::vector<SweepRow> sweep_rows(Planner& planner, const PredictFlags& flags,
                                 const std::vector<SweptJob>& jobs,
                                 const std::vector<Combination>& combinations) {
  std::vector<SweepRow> rows;
  Progress progress(planner.console(), "predicting",
                    static_cast<std::int64_t>(jobs.size() * combinations.size()));
  for (const SweptJob& swept : jobs) {
    for (const Combination& combination : combinations) {
      const Result<Plan> plan = planner.plan(swept.job, combination.overrides);
      const Result<void> fits = plan ? check_rank(flags, *plan) : tl::unexpected(plan.error());
      SweepRow row;
      if (fits) {
        row = sweep_row(predicted(*plan, view_of(flags)));
      } else {
        row.framework = swept.job.framework;
        row.reason = fits.error().message;
      }
      row.swept = combination.swept;
      if (jobs.size() > 1) {
        row.swept.insert(row.swept.begin(), {"--framework", swept.framework});
      }
      rows.push_back(std::move(row));
      progress.add(1);
    }
  }
  return rows;
}

Result<ExitCode> predict_sweep(Console& console, const PredictFlags& flags, const std::vector<SweptJob>& jobs,
                               const std::vector<Combination>& combinations) {
  if (!flags.calls.empty()) {
    return failure("--calls writes the calls of one job; give each flag one value");
  }
  Planner planner(console);
  const std::vector<SweepRow> rows = sweep_rows(planner, flags, jobs, combinations);
  if (std::all_of(rows.begin(), rows.end(), [](const SweepRow& row) { return !row.reason.empty(); })) {
    return failure(fmt::format("none of the {} combinations is possible; the first: {}", rows.size(),
                               rows.front().reason));
  }
  if (const std::string uneven = uneven_work_text(rows); !uneven.empty()) {
    warn(console, uneven);
  }
  const SweepHead head{jobs.front().job.model.name, flags.iteration, flags.accounting, flags.rank.value_or(0),
                       flags.layout.ranks_per_node() > 0};
  std::string text;
  switch (flags.output.kind()) {
    case Format::table:
      text = sweep_text(head, rows, style_for(console, flags.output));
      break;
    case Format::json:
      text = json_result(sweep_json(head, rows));
      break;
    case Format::csv:
      text = sweep_csv(head, rows);
      break;
  }
  write_result(console, flags.output, text);
  return ExitCode::done;
}

/// The configuration under each framework of --framework, in its own without that flag.
Result<std::vector<SweptJob>> read_jobs(const PredictFlags& flags) {
  std::vector<SweptJob> jobs;
  for (const std::string& name : comma_list(flags.framework)) {
    if (name.empty() && !flags.framework.empty()) {
      return failure(fmt::format("--framework {}: a name is missing", flags.framework));
    }
    const Result<std::string> framework = checked_framework(name);
    Result<Job> job = framework ? read_config(flags.config, *framework) : tl::unexpected(framework.error());
    if (!job) {
      return tl::unexpected(job.error());
    }
    jobs.push_back({name, std::move(*job)});
  }
  return jobs;
}

/// Two results may not go to one place, nor one to where the configuration is read.
Result<void> check_places(const PredictFlags& flags) {
  const std::string& file = flags.output.file;
  Result<void> usable =
      check_file_place("-o", file).and_then([&] { return check_apart("-o", file, flags.config); });
  if (usable && !flags.calls.empty()) {
    usable = check_file_place("--calls", flags.calls).and_then([&] {
      return check_apart("--calls", flags.calls, flags.config);
    });
  }
  if (!usable || flags.calls.empty()) {
    return usable;
  }
  if (flags.calls == "-" && file == "-" && flags.output.kind() != Format::table) {
    return failure(fmt::format("--calls - and --format {} both write to standard output; give one a file",
                               flags.output.format));
  }
  std::error_code status;
  const auto place = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, status), status);
  };
  if (flags.calls != "-" && file != "-" && place(flags.calls) == place(file)) {
    return failure(fmt::format("--calls and -o both write {}; give them different files", file));
  }
  return {};
}

Result<ExitCode> predict(Console& console, const PredictFlags& flags) {
  if (const Result<void> apart = check_places(flags); !apart) {
    return tl::unexpected(apart.error());
  }
  const Result<std::vector<Combination>> combinations = flags.layout.combinations();
  if (!combinations) {
    return tl::unexpected(combinations.error());
  }
  if (const Result<void> taken = check_takes_config(flags.config); !taken) {
    return tl::unexpected(taken.error());
  }
  const Result<std::vector<SweptJob>> jobs = read_jobs(flags);
  if (!jobs) {
    return tl::unexpected(jobs.error());
  }
  if (jobs->size() * combinations->size() > 1) {
    return predict_sweep(console, flags, *jobs, *combinations);
  }
  const Result<Plan> plan = Planner(console).plan(jobs->front().job, combinations->front().overrides);
  const Result<void> fits = plan ? check_rank(flags, *plan) : tl::unexpected(plan.error());
  if (!fits) {
    return tl::unexpected(fits.error());
  }
  return predict_one(console, flags, *plan);
}

}  // namespace

Action declare_predict(CLI::App& verb) {
  const auto flags = std::make_shared<PredictFlags>();
  verb.footer(k_predict_examples);
  verb.add_option("CONFIG", flags->config, config_kinds_text("1.3B"))->required();
  verb.add_option("--framework", flags->framework,
                  fmt::format("Whose rules: {} (a comma list sweeps)", framework_names()))
      ->type_name("NAME");
  verb.add_option("--iteration", flags->iteration, "Which iteration the table shows")
      ->check(CLI::IsMember({"init", "cold", "steady"}))
      ->capture_default_str();
  verb.add_option("--accounting", flags->accounting,
                  "messages, or deepspeed-logger: what its comms logger would show")
      ->check(CLI::IsMember({"messages", "deepspeed-logger"}))
      ->capture_default_str();
  verb.add_option("--rank", flags->rank, "Only this rank")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{999'999'999}))
      ->type_name("R");
  verb.add_option("--calls", flags->calls,
                  "Write every call as JSON Lines; - is standard output, .gz compresses")
      ->type_name("FILE");
  declare_output(verb, flags->output);
  flags->layout.declare(verb, true);
  return [flags](Console& console) { return predict(console, *flags); };
}

}  // namespace commlens
