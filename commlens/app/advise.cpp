#include "commlens/app/advise.hpp"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/app/job_source.hpp"
#include "commlens/app/job_text.hpp"
#include "commlens/app/json_result.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/compare/compare.hpp"
#include "commlens/frameworks/read_config.hpp"
#include "commlens/report/advice_report.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

/// One line that states whether the trace is a run of this job.
std::string trace_note(const Plan& plan, const std::string& name, const Trace& trace) {
  const std::vector<Iteration> iterations = trace.iterations();
  const Result<Comparison> compared = iterations.empty()
                                          ? failure("it does not say which iteration a call is of")
                                          : compare(plan.trace_of(iterations), trace, {});
  if (!compared) {
    return fmt::format("{}: cannot be compared with the prediction: {}", name, compared.error().message);
  }
  return compared->equal()
             ? fmt::format("{}: its calls are those predicted", name)
             : fmt::format(
                   "{}: its calls differ from the prediction (commlens compare says where); the savings are "
                   "those of the predicted job",
                   name);
}

std::string head_text(const AdviseResult& result) {
  const Job& job = result.plan.job;
  const std::vector<std::string>& unverified = result.plan.unverified;
  return fmt::format("{}\n{}{}\nrules: {}{}\n{}", parameters_text(job.model), layout_text(job),
                     attention_text(job), result.plan.tables.provenance.framework,
                     unverified.empty() ? "" : fmt::format("; unverified: {}", fmt::join(unverified, "; ")),
                     result.note.empty() ? "" : result.note + "\n");
}

Json answer_json(const AdviseResult& result) {
  const Job& job = result.plan.job;
  Json json = {{"schema", "commlens.advise/2"},
               {"model", model_json(job.model)},
               {"layout", layout_json(job)},
               {"framework", job.framework},
               {"rules", result.plan.tables.provenance.framework},
               {"verified", result.plan.unverified.empty()},
               {"unverified", result.plan.unverified},
               {"scope", "one steady iteration; per_rank: the rank that sends most"},
               {"trace_note", result.note}};
  json.update(advice_json(result.advice));
  return json;
}

}  // namespace

Result<AdviseResult> advise(const AdviseRequest& request) {
  const Result<std::string> framework = checked_framework(request.framework);
  if (!framework) {
    return tl::unexpected(framework.error());
  }
  if (const Result<void> accepted = check_takes_config(request.config); !accepted) {
    return tl::unexpected(accepted.error());
  }
  const Result<Job> job = read_config(request.config, *framework);
  if (!job) {
    return tl::unexpected(job.error());
  }
  Overrides overrides = request.overrides;
  std::optional<Trace> trace;
  if (request.trace) {
    Result<Trace> opened = open_trace(request.events, *request.trace);
    if (!opened) {
      return tl::unexpected(opened.error());
    }
    trace = std::move(*opened);
    if (!overrides.gives_world() && job->layout.dp == 0 && job->layout.ranks == 0) {
      overrides.ranks = ranks_of_job(*trace);
    }
  }
  Result<Plan> plan = Planner(request.events).plan(*job, overrides);
  if (!plan) {
    return tl::unexpected(plan.error());
  }
  std::string note;
  if (request.trace && trace) {
    note = trace_note(*plan, shown_name(*request.trace), *trace);
  }
  return advise(plan->job, trace ? &*trace : nullptr, request.options).map([&](Advice advice) {
    return AdviseResult{std::move(*plan), std::move(advice), std::move(note)};
  });
}

std::string rendered(const AdviseResult& result, Format format, const TextStyle& style) {
  return in_format(
      format, [&] { return wrapped(head_text(result), style) + advice_text(result.advice, style); },
      [&] { return answer_json(result); }, [&] { return advice_csv(result.advice); });
}

}  // namespace commlens
