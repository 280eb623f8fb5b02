#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/advice/advise.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/compare_sides.hpp"
#include "commlens/cli/job_source.hpp"
#include "commlens/cli/job_text.hpp"
#include "commlens/cli/json_result.hpp"
#include "commlens/cli/layout_flags.hpp"
#include "commlens/cli/output_place.hpp"
#include "commlens/cli/trace_source.hpp"
#include "commlens/compare/compare.hpp"
#include "commlens/frameworks/read_config.hpp"
#include "commlens/report/advice_report.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* k_advise_examples = R"(Examples:
  commlens advise 1.3B --ranks 16 --zero 3 --gpu-memory 64
  commlens advise case.yaml trace/ --gpus-per-node 8
  commlens advise 13B --framework megatron --tp 8 --ranks 64 --gpus-per-node 8)";

struct AdviseFlags {
  std::vector<std::string> sources;
  std::string framework;
  LayoutFlags layout;
  double gpu_memory = 0;   // GiB
  double small_share = 1;  // percent
  std::int64_t ranks_per_node = 0;
  OutputFlags output;
};

/// The configuration files, and the trace that may stand last.
struct Sources {
  std::vector<std::string> config;
  std::optional<std::string> trace;
};

Result<Sources> sources_of(const std::vector<std::string>& arguments) {
  Sources sources;
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    if (!names_trace(arguments[at])) {
      sources.config.push_back(arguments[at]);
    } else if (at + 1 < arguments.size()) {
      return failure(fmt::format("{} is a trace: it comes last, after the configuration", arguments[at]));
    } else {
      sources.trace = arguments[at];
    }
  }
  if (sources.config.empty()) {
    return failure(
        fmt::format("{} is a trace: settings are changed in a configuration; write commlens advise CONFIG {}",
                    arguments.back(), arguments.back()));
  }
  return sources;
}

AdviceOptions options_of(const AdviseFlags& flags) {
  constexpr double gib = 1024.0 * 1024 * 1024;
  AdviceOptions options;
  options.ranks_per_node = flags.ranks_per_node;
  options.small_share = flags.small_share / 100;
  if (flags.gpu_memory > 0) {
    options.memory = Bytes{static_cast<std::int64_t>(flags.gpu_memory * gib)};
  }
  return options;
}

/// One line on whether the trace is a run of this job.
std::string trace_note(const Plan& plan, const std::string& name, const Trace& trace) {
  const std::vector<Iteration> iterations = trace.iterations();
  const Result<Comparison> compared = iterations.empty()
                                          ? failure("it does not say which iteration a call is of")
                                          : compare(plan.trace_of(iterations), trace, {});
  if (!compared) {
    return fmt::format("{}: cannot be set against the prediction: {}", name, compared.error().message);
  }
  return compared->equal()
             ? fmt::format("{}: its calls are those predicted", name)
             : fmt::format(
                   "{}: its calls differ from the prediction (commlens compare says where); the savings are "
                   "those of the predicted job",
                   name);
}

/// What is advised, and on what.
struct AdviseAnswer {
  Plan plan;
  Advice advice;
  std::string note;  // on the trace
};

std::string head_text(const AdviseAnswer& answer) {
  const Job& job = answer.plan.job;
  const std::vector<std::string>& unverified = answer.plan.unverified;
  return fmt::format("{}\n{}\nrules: {}{}\n{}", parameters_text(job.model), layout_text(job),
                     answer.plan.tables.provenance.framework,
                     unverified.empty() ? "" : fmt::format("; unverified: {}", fmt::join(unverified, "; ")),
                     answer.note.empty() ? "" : answer.note + "\n");
}

Json answer_json(const AdviseAnswer& answer) {
  const Job& job = answer.plan.job;
  Json json = {{"schema", "commlens.advise/2"},
               {"model", model_json(job.model)},
               {"layout", layout_json(job)},
               {"framework", job.framework},
               {"rules", answer.plan.tables.provenance.framework},
               {"verified", answer.plan.unverified.empty()},
               {"unverified", answer.plan.unverified},
               {"scope", "one steady iteration; per_rank: the rank that sends most"},
               {"trace_note", answer.note}};
  json.update(advice_json(answer.advice));
  return json;
}

Result<AdviseAnswer> answer_for(Console& console, const AdviseFlags& flags, const Sources& sources) {
  const Result<std::string> framework = checked_framework(flags.framework);
  Result<Overrides> overrides = flags.layout.single();
  if (!framework || !overrides) {
    return tl::unexpected(framework ? overrides.error() : framework.error());
  }
  const Result<Job> job = read_config(sources.config, *framework);
  if (!job) {
    return tl::unexpected(job.error());
  }
  std::optional<Trace> trace;
  if (sources.trace) {
    Result<Trace> opened = open_trace(console, *sources.trace);
    if (!opened) {
      return tl::unexpected(opened.error());
    }
    trace = std::move(*opened);
    if (!flags.layout.gives_world() && job->layout.dp == 0 && job->layout.ranks == 0) {
      overrides->ranks = ranks_of_job(*trace);
    }
  }
  Result<Plan> plan = Planner(console).plan(*job, *overrides);
  if (!plan) {
    return tl::unexpected(plan.error());
  }
  std::string note;
  if (sources.trace && trace) {
    note = trace_note(*plan, shown_name(*sources.trace), *trace);
  }
  return advise(plan->job, trace ? &*trace : nullptr, options_of(flags)).map([&](Advice advice) {
    return AdviseAnswer{std::move(*plan), std::move(advice), std::move(note)};
  });
}

Result<ExitCode> advise_verb(Console& console, const AdviseFlags& flags) {
  if (const Result<void> usable = check_file_place("-o", flags.output.file); !usable) {
    return tl::unexpected(usable.error());
  }
  if (const Result<void> apart = check_apart("-o", flags.output.file, flags.sources); !apart) {
    return tl::unexpected(apart.error());
  }
  const Result<Sources> sources = sources_of(flags.sources);
  if (!sources) {
    return tl::unexpected(sources.error());
  }
  const Result<AdviseAnswer> answer = answer_for(console, flags, *sources);
  if (!answer) {
    return tl::unexpected(answer.error());
  }
  const TextStyle style = style_for(console, flags.output);
  std::string text;
  switch (flags.output.kind()) {
    case Format::table:
      text = wrapped(head_text(*answer), style) + advice_text(answer->advice, style);
      break;
    case Format::json:
      text = json_result(answer_json(*answer));
      break;
    case Format::csv:
      text = advice_csv(answer->advice);
      break;
  }
  write_result(console, flags.output, text);
  return ExitCode::done;
}

}  // namespace

Action declare_advise(CLI::App& verb) {
  const auto flags = std::make_shared<AdviseFlags>();
  verb.footer(k_advise_examples);
  verb.add_option(
          "CONFIG", flags->sources,
          "A configuration as predict takes it, and then, if there is one, a trace of that job: its times "
          "decide what a call costs")
      ->type_name("CONFIG… [TRACE]")
      ->required();
  verb.add_option("--framework", flags->framework, "Whose rules: " + advised_framework_names())
      ->type_name("NAME");
  verb.add_option("--gpus-per-node", flags->ranks_per_node, "Judge what leaves a node")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->type_name("N");
  verb.add_option("--gpu-memory", flags->gpu_memory, "Memory of one GPU that the job may fill")
      ->check(CLI::Range(0.001, 1e6))
      ->type_name("GiB");
  verb.add_option("--small-share", flags->small_share,
                  "Leave small messages alone below this share of the calls' time, or number without times")
      ->check(CLI::Range(0.0, 100.0))
      ->type_name("PERCENT")
      ->capture_default_str();
  declare_output(verb, flags->output);
  flags->layout.declare(verb, false);
  return [flags](Console& console) { return advise_verb(console, *flags); };
}

}  // namespace commlens
