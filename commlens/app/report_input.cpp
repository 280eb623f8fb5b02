#include "commlens/app/report_input.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "commlens/advice/advise.hpp"
#include "commlens/app/explain_sides.hpp"
#include "commlens/app/named_axes.hpp"
#include "commlens/app/report_facts.hpp"
#include "commlens/app/result_files.hpp"
#include "commlens/frameworks/paper/equations.hpp"
#include "commlens/report/verdict.hpp"

namespace commlens {
namespace {

constexpr std::int64_t k_most_predicted = 1000;  // predicted for one report

/// --framework NAME for all arguments, or NAME,NAME… one for each.
Result<std::vector<std::string>> frameworks_of(const ReportRequest& request) {
  std::vector<std::string> names;
  std::size_t start = 0;
  while (start <= request.framework.size()) {
    const std::size_t comma = std::min(request.framework.find(',', start), request.framework.size());
    names.push_back(request.framework.substr(start, comma - start));
    start = comma + 1;
  }
  for (const std::string& name : names) {
    if (const Result<std::string> known = checked_framework(name); !known) {
      return tl::unexpected(known.error());
    }
  }
  if (names.size() == 1) {
    names.resize(request.arguments.size(), names.front());
  }
  if (names.size() != request.arguments.size()) {
    return failure(
        fmt::format("--framework {}: {} names for {} traces and configurations; give one for all or one each",
                    request.framework, names.size(), request.arguments.size()));
  }
  return names;
}

Result<std::vector<Side>> read_sides(const ReportRequest& request) {
  const Result<std::vector<std::string>> frameworks = frameworks_of(request);
  if (!frameworks) {
    return tl::unexpected(frameworks.error());
  }
  std::vector<Side> sides;
  for (std::size_t at = 0; at < request.arguments.size(); ++at) {
    Result<Side> side = read_side(request.events, request.arguments[at], (*frameworks)[at]);
    if (!side) {
      return tl::unexpected(side.error());
    }
    sides.push_back(std::move(*side));
  }
  const bool any_config =
      std::any_of(sides.begin(), sides.end(), [](const Side& side) { return side.is_config(); });
  std::vector<const Side*> all;
  std::transform(sides.begin(), sides.end(), std::back_inserter(all), [](const Side& side) { return &side; });
  if (const Result<void> known = check_has_ranks(all, request.rank); !known) {
    return tl::unexpected(known.error());
  }
  if (!any_config && (request.overrides != Overrides() || !request.framework.empty())) {
    return failure(
        "only traces were given: --framework and the layout flags are for configurations; leave them out");
  }
  return sides;
}

/// Predicts a configuration without another side: initialisation and its iterations, at least to the steady
/// one.
Result<void> predict_alone(Side& side, const Overrides& overrides, const std::optional<IterationRange>& range,
                           Planner& planner) {
  const Result<Plan> plan = planner.plan(side.config(), overrides);
  if (!plan) {
    return tl::unexpected(plan.error());
  }
  const std::int64_t steady = plan->steady_iteration();
  std::int64_t first = k_init_iteration;
  std::int64_t last = std::clamp<std::int64_t>(plan->job.iterations - 1, steady, steady + k_most_predicted);
  if (range) {
    first = range->first;
    last = range->second == INT32_MAX ? std::max(last, first) : range->second;
  }
  if (last - first >= k_most_predicted + steady + 2) {
    return failure(
        fmt::format("--iteration: {} are more than a report shows of a prediction, whose iterations repeat; "
                    "ask for at most {}",
                    last - first + 1, k_most_predicted));
  }
  std::vector<Iteration> iterations;
  for (std::int64_t iteration = first; iteration <= last; ++iteration) {
    iterations.push_back(static_cast<Iteration>(iteration));
  }
  side.planned = plan->job;
  side.steady = static_cast<Iteration>(steady);
  side.flops_per_rank = plan->flops_per_rank(*side.steady);
  side.trace = plan->trace_of(iterations);
  side.unverified = plan->unverified;
  return {};
}

/// The comparison of two sides, or why they cannot be compared.
struct PairOutcome {
  std::optional<ComparedTraces> compared;
  std::string not_compared;
};

/// The last `parts` components of a path.
std::string tail_of(const std::string& argument, std::size_t parts) {
  std::size_t end = argument.find_last_not_of('/');
  end = end == std::string::npos ? argument.size() : end + 1;
  std::size_t start = end;
  for (; parts > 0 && start > 0; --parts) {
    const std::size_t slash = start < 2 ? std::string::npos : argument.rfind('/', start - 2);
    start = slash == std::string::npos ? 0 : slash + 1;
  }
  return argument.substr(start, end - start);
}

/// The shortest ends of the paths that are distinct; the whole paths if none are.
std::vector<std::string> short_names(const std::vector<std::string>& arguments) {
  constexpr std::size_t most_parts = 8;
  const std::size_t distinct = std::set<std::string>(arguments.begin(), arguments.end()).size();
  std::vector<std::string> names;
  for (std::size_t parts = 1; parts <= most_parts; ++parts) {
    names.clear();
    for (const std::string& argument : arguments) {
      names.push_back(tail_of(argument, parts));
    }
    if (std::set<std::string>(names.begin(), names.end()).size() == distinct) {
      return names;
    }
  }
  return arguments;
}

NamedTrace named(const Side& side, const std::vector<Side>& sides) {
  std::vector<std::string> arguments;
  for (const Side& each : sides) {
    arguments.push_back(each.argument);
  }
  const std::vector<std::string> names = short_names(arguments);
  return {names[static_cast<std::size_t>(&side - sides.data())], &side.trace};
}

/// Compares a configuration, or a trace, with a printed log.
Result<PairOutcome> compared_with_log(std::vector<Side>& sides, const ReportRequest& request,
                                      const CompareOptions& options, Planner& planner) {
  const std::size_t log = sides[0].is_log() ? 0 : 1;
  Result<LogMatch> match = compare_with_log(sides[1 - log], sides[log], request.overrides, options, planner);
  if (!match) {
    return tl::unexpected(match.error());
  }
  return PairOutcome{ComparedTraces{named(sides[0], sides), named(sides[1], sides),
                                    std::move(match->comparison), std::nullopt},
                     ""};
}

Result<PairOutcome> compared_volumes(const std::vector<Side>& sides, const ReportRequest& request,
                                     const CompareOptions& options, Planner& planner) {
  Result<std::vector<VolumeDifference>> rows = compare_volumes(sides[0].trace, sides[1].trace, options);
  if (!rows) {
    return PairOutcome{std::nullopt, rows.error().message};
  }
  Result<Explanation> explanation =
      explain_against_paper(sides[0], sides[1], request.overrides, options, planner);
  if (!explanation) {
    return tl::unexpected(explanation.error());
  }
  return PairOutcome{ComparedTraces{named(sides[0], sides), named(sides[1], sides), std::move(*rows),
                                    std::move(*explanation)},
                     ""};
}

/// Lines as one, with "; " between them.
std::string one_line(const std::string& lines) {
  std::string text;
  std::size_t start = lines.find_first_not_of(" \n");
  while (start != std::string::npos) {
    const std::size_t end = std::min(lines.find('\n', start), lines.size());
    text += (text.empty() ? "" : "; ") + lines.substr(start, end - start);
    start = lines.find_first_not_of(" \n", end);
  }
  return text;
}

Result<void> keep_rank_of_all(std::vector<Side>& sides, const std::optional<Rank>& rank) {
  for (Side& side : sides) {
    if (rank) {
      if (const Result<void> kept = keep_rank_of(side, *rank); !kept) {
        return tl::unexpected(kept.error());
      }
    }
  }
  return {};
}

/// Compares the two sides as `commlens compare` does, and predicts configurations. Traces that share no rank
/// or iteration still have a report.
Result<PairOutcome> compared_pair(std::vector<Side>& sides, const ReportRequest& request,
                                  const std::optional<IterationRange>& range, Planner& planner) {
  Side& a = sides[0];
  Side& b = sides[1];
  CompareOptions options = options_by_rules();
  options.iterations = range;
  if (a.is_log() != b.is_log()) {
    return compared_with_log(sides, request, options, planner);
  }
  for (const auto& [side, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (side->is_config()) {
      if (const Result<void> done = predict_side(*side, *other, request.overrides, range, planner); !done) {
        return tl::unexpected(done.error());
      }
    }
  }
  if (const Result<void> kept = keep_rank_of_all(sides, request.rank); !kept) {
    return tl::unexpected(kept.error());
  }
  if (a.has_volumes_only() != b.has_volumes_only()) {
    return compared_volumes(sides, request, options, planner);
  }
  Result<Comparison> comparison = compare(a.trace, b.trace, options);
  if (!comparison) {
    return PairOutcome{std::nullopt, comparison.error().message};
  }
  Result<WhyCallsDiffer> why = why_calls_differ(a, b, *comparison, options);
  if (!why) {
    return tl::unexpected(why.error());
  }
  if (!why->hints.empty()) {
    why->explanation.notes.push_back(one_line(why->hints));
  }
  return PairOutcome{
      ComparedTraces{named(a, sides), named(b, sides), std::move(*comparison), std::move(why->explanation)},
      ""};
}

/// Predicts every configuration of three or more inputs without another side; the default number of ranks is
/// that of the first trace.
Result<void> predict_each(std::vector<Side>& sides, const ReportRequest& request,
                          const std::optional<IterationRange>& range, Planner& planner) {
  const auto trace =
      std::find_if(sides.begin(), sides.end(), [](const Side& side) { return !side.is_config(); });
  for (Side& side : sides) {
    if (!side.is_config()) {
      continue;
    }
    const Result<void> done = trace == sides.end()
                                  ? predict_alone(side, request.overrides, range, planner)
                                  : predict_side(side, *trace, request.overrides, range, planner);
    if (!done) {
      return tl::unexpected(done.error());
    }
  }
  return keep_rank_of_all(sides, request.rank);
}

/// The trace if the other input is a configuration, else the first.
const Side& subject_of(const std::vector<Side>& sides) {
  const bool second = sides.size() == 2 && sides[0].is_config() && !sides[1].is_config();
  return sides[second ? 1 : 0];
}

void add_advice(FigureInput& input, const Job& job, const Trace* recorded) {
  AdviceOptions options;
  options.ranks_per_node = input.ranks_per_node;
  Result<Advice> advice = advise(job, recorded, options);
  if (advice) {
    input.advice = std::move(*advice);
  } else {
    input.not_advised = advice.error().message;
  }
}

/// Advice and equations of the configuration that was predicted, if there is exactly one.
void add_job(ReportMaterial& material) {
  FigureInput& input = material.input;
  const auto is_config = [](const Side& side) { return side.is_config(); };
  const auto configs = std::count_if(material.sides.begin(), material.sides.end(), is_config);
  if (configs != 1) {
    input.not_advised =
        configs == 0 ? "settings can be tried on a configuration only; give the one that was run beside "
                       "its trace"
                     : "more than one configuration was given; report on one to see what to change in it";
    return;
  }
  const Side& config = *std::find_if(material.sides.begin(), material.sides.end(), is_config);
  if (!config.planned) {
    input.not_advised = "the configuration was predicted for one rank, as a printed log shows it";
    return;
  }
  for (const EquationValue& equation : equations(*config.planned)) {
    input.equations.push_back({equation.equation, equation.text, equation.value, equation.value_exact,
                               equation.unit, equation.scope, equation.note});
  }
  const Side& subject = subject_of(material.sides);
  add_advice(input, *config.planned, subject.is_config() ? nullptr : &subject.trace);
}

/// Traces whose groups have no axis take the names of the one configuration beside them.
void name_axes_of_traces(ReportMaterial& material) {
  const Side* config = nullptr;
  std::int64_t configs = 0;
  for (const Side& side : material.sides) {
    config = side.is_config() ? &side : config;
    configs += side.is_config() ? 1 : 0;
  }
  for (Side& side : material.sides) {
    if (configs == 1 && !side.is_config() && config->trace.groups.mesh()) {
      side.trace = with_named_axes(std::move(side.trace), *config->trace.groups.mesh());
    }
  }
}

/// Of a report without traces and configurations.
Result<void> check_results_alone(const ReportRequest& request) {
  if (request.overrides != Overrides() || !request.framework.empty() || request.iterations ||
      request.ranks_per_node > 0 || request.rank) {
    return failure(
        "only results of search, simulate and bench were given: --framework, --iteration, --rank, "
        "--gpus-per-node "
        "and the layout flags are for traces and configurations; leave them out");
  }
  return {};
}

/// "recorded, commlens 0.2.0; small: 3,716,608 parameters; …".
std::string one_line_of(const InputFacts& of) {
  std::string text;
  for (const auto& [what, value] : of.facts) {
    text += (text.empty() ? "" : "; ") + value;
  }
  return text;
}

/// Names and settings of all inputs: the subject of the report comes first, of settings those of
/// configurations.
void add_inputs(ReportMaterial& material, const Side& subject) {
  FigureInput& input = material.input;
  std::vector<std::pair<bool, InputFacts>> facts;
  input.all.clear();
  for (const Side& side : material.sides) {
    input.all.push_back(named(side, material.sides));
    facts.emplace_back(side.is_config(), InputFacts{input.all.back().name, facts_of(side)});
    input.unverified.insert(input.unverified.end(), side.unverified.begin(), side.unverified.end());
  }
  std::stable_partition(input.all.begin(), input.all.end(),
                        [&](const NamedTrace& run) { return run.trace == &subject.trace; });
  std::stable_partition(facts.begin(), facts.end(), [](const auto& of) { return of.first; });
  const auto configs = std::count_if(facts.begin(), facts.end(), [](const auto& of) { return of.first; });
  for (auto& [is_config, of] : facts) {
    if (is_config || configs != 1) {
      input.facts.push_back(std::move(of));
    } else {
      input.facts.front().facts.emplace_back(of.name, one_line_of(of));  // beside the one configuration
    }
  }
}

/// Of traces and configurations, at least one.
Result<std::unique_ptr<ReportMaterial>> trace_material(const ReportRequest& request) {
  const std::optional<IterationRange>& range = request.iterations;
  Result<std::vector<Side>> sides = read_sides(request);
  if (!sides) {
    return tl::unexpected(sides.error());
  }
  Planner planner(request.events);
  auto material = std::make_unique<ReportMaterial>();
  material->sides = std::move(*sides);
  PairOutcome outcome;
  if (material->sides.size() == 2) {
    Result<PairOutcome> compared = compared_pair(material->sides, request, range, planner);
    if (!compared) {
      return tl::unexpected(compared.error());
    }
    outcome = std::move(*compared);
  } else {
    if (const Result<void> done = predict_each(material->sides, request, range, planner); !done) {
      return tl::unexpected(done.error());
    }
    outcome.not_compared =
        material->sides.size() == 1
            ? "there is nothing to compare it with; give a configuration beside its trace, or two traces"
            : "more than two were given; give two to see them compared";
  }
  const Side& subject = subject_of(material->sides);
  if (request.ranks_per_node > 0) {
    if (const Result<void> known = check_groups_are_known(subject.trace); !known) {
      return tl::unexpected(known.error());
    }
  }
  const Task task(request.events, "counting calls", 0);
  name_axes_of_traces(*material);
  material->input =
      figure_input(named(subject, material->sides), range, request.ranks_per_node, subject.steady);
  if (range && material->input.summary.calls == 0 && !subject.trace.streams.empty()) {
    return failure(
        fmt::format("--iteration {}: {} has no calls in them", range_text(*range), subject.argument));
  }
  add_inputs(*material, subject);
  material->input.compared = std::move(outcome.compared);
  material->input.not_compared = std::move(outcome.not_compared);
  add_job(*material);
  return material;
}

}  // namespace

Result<std::unique_ptr<ReportMaterial>> report_material(const ReportRequest& request) {
  if (request.arguments.empty()) {
    return failure("nothing to report on is given; name a trace or a configuration");
  }
  ReportRequest others = request;
  const std::vector<std::string> results = take_results(others.arguments);
  return read_results(results).and_then([&](ResultDocuments documents) {
    return (others.arguments.empty()
                ? check_results_alone(request).map([] { return std::make_unique<ReportMaterial>(); })
                : trace_material(others))
        .map([&](std::unique_ptr<ReportMaterial> material) {
          const std::vector<InputFacts> facts = document_facts(documents);
          material->input.facts.insert(material->input.facts.end(), facts.begin(), facts.end());
          material->input.documents = std::move(documents);
          return material;
        });
  });
}

}  // namespace commlens
