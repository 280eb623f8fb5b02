#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/wrapped.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/compare_regression.hpp"
#include "commlens/cli/compare_sides.hpp"
#include "commlens/cli/explain_sides.hpp"
#include "commlens/cli/json_result.hpp"
#include "commlens/cli/output_place.hpp"
#include "commlens/compare/whole_job.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/report/comparison_report.hpp"
#include "commlens/report/explain_report.hpp"
#include "commlens/report/whole_job_report.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* k_compare_examples = R"(Examples:
  commlens compare case.yaml calls.jsonl.gz
  commlens compare 1-3B.yml run.log
  commlens compare 1.3B 1.3B --framework paper,deepspeed --ranks 16 --zero 3
Exit code: 0 equal, 1 different, 2 bad input.)";

struct CompareFlags {
  std::string a;
  std::string b;
  std::string framework;
  std::string iterations;
  std::vector<std::string> ignored;
  bool order = false;
  LayoutFlags layout;
  OutputFlags output;
  RegressionFlags regression;
};

/// A result in each format, and whether the sides are equal.
struct CompareAnswer {
  std::string text;
  Json json;
  std::string csv;
  bool equal = false;
  std::string question;  // on what was given, when nothing is equal
};

Result<CompareOptions> options_of(const CompareFlags& flags, const std::optional<IterationRange>& range) {
  CompareOptions options;
  options.iterations = range;
  options.order_counts = flags.order;
  options.rules = &rule_book();
  for (const std::string& name : flags.ignored) {
    const std::optional<CommKind> kind = comm_kind_from(name);
    if (!kind) {
      return failure(
          fmt::format("--ignore-op {}: there is no such op; choose all_reduce, all_gather, reduce_scatter, "
                      "all_to_all, broadcast, reduce, send, recv or other",
                      name));
    }
    options.ignored.push_back(*kind);
  }
  return options;
}

/// --framework NAME for both sides, or NAME,NAME for A and B.
std::pair<std::string, std::string> frameworks_of(const std::string& text) {
  const std::size_t comma = text.find(',');
  return comma == std::string::npos ? std::pair(text, text)
                                    : std::pair(text.substr(0, comma), text.substr(comma + 1));
}

Result<CompareAnswer> answer_for_log(Side& a, Side& b, const CompareFlags& flags,
                                     const CompareOptions& options, Planner& planner) {
  const TextStyle style = style_for(planner.console(), flags.output);
  Side& predicted = a.is_log() ? b : a;
  const Side& log = a.is_log() ? a : b;
  const Result<LogMatch> match = compare_with_log(predicted, log, flags.layout, options, planner);
  if (!match) {
    return tl::unexpected(match.error());
  }
  const LoggedComparison& compared = match->comparison;
  const std::string_view other = predicted.is_prediction() ? "predicted" : a.is_log() ? "B" : "A";
  CompareAnswer answer{logged_text(compared, style, other), logged_json(compared, other),
                       logged_csv(compared, other), compared.equal()};
  if (const std::optional<std::int64_t>& dp = match->fitted_dp) {
    answer.json["dp_fitted"] = *dp;
    answer.text += fmt::format(
        "\nnothing says how many ranks ran: dp {} fits the log best; --ranks or --dp decides\n", *dp);
  }
  return answer;
}

Result<CompareAnswer> answer_for_volumes(const Side& a, const Side& b, const CompareFlags& flags,
                                         const CompareOptions& options, Planner& planner) {
  const Result<std::vector<VolumeDifference>> rows = compare_volumes(a.trace, b.trace, options);
  if (!rows) {
    return tl::unexpected(rows.error());
  }
  if (rows->empty()) {
    return failure(fmt::format("nothing to compare: {} and {} have no call but barriers and ignored ops",
                               a.argument, b.argument));
  }
  const Result<Explanation> explanation = explain_against_paper(a, b, flags.layout, options, planner);
  if (!explanation) {
    return tl::unexpected(explanation.error());
  }
  const TextStyle style = style_for(planner.console(), flags.output);
  CompareAnswer answer{volumes_text(*rows, style) + explanation_text(*explanation, style),
                       volumes_json(*rows), volumes_csv(*rows, &*explanation), all_equal(*rows)};
  answer.json["iteration"] = explanation->iteration;
  add_explanation(*explanation, answer.json);
  return answer;
}

/// Of two views of one job of which one has no iterations.
Result<CompareAnswer> answer_for_whole_job(const Side& a, const Side& b, const CompareOptions& options,
                                           const TextStyle& style) {
  if (options.order_counts) {
    return failure(fmt::format(
        "--order: {} does not say which iteration a call is of, so calls are counted over the whole "
        "job; leave --order out",
        a.trace.iterations().empty() ? a.argument : b.argument));
  }
  const Result<WholeJobComparison> comparison = compare_whole_job(a.trace, b.trace, options);
  if (!comparison) {
    return tl::unexpected(comparison.error());
  }
  if (comparison->rows.empty()) {
    return failure(fmt::format("nothing to compare: {} and {} have no call but barriers and ignored ops",
                               a.argument, b.argument));
  }
  return CompareAnswer{whole_job_text(*comparison, style), whole_job_json(*comparison),
                       whole_job_csv(*comparison), comparison->equal(), ""};
}

Json guesses_json(const std::vector<SettingGuess>& guesses) {
  Json json = Json::array();
  for (const SettingGuess& guess : guesses) {
    json.push_back({{"setting", guess.setting},
                    {"value", guess.value},
                    {"explained_calls_all_ranks", guess.explained},
                    {"remaining_calls_all_ranks", guess.remaining}});
  }
  return json;
}

/// Sides without one equal call are most often not of one job. Two configurations may differ as they like.
std::string question_on(const Side& a, const Side& b, const Comparison& comparison) {
  const bool is_one_sided = comparison.calls_a == 0 || comparison.calls_b == 0;
  if (comparison.exact > 0 || is_one_sided || (a.is_config() && b.is_config())) {
    return "";
  }
  const std::string_view question = a.is_config()   ? "is B a run of this configuration?"
                                    : b.is_config() ? "is A a run of this configuration?"
                                                    : "are they of the same job?";
  return fmt::format("A and B have not one call in common: {}\n", question);
}

Result<CompareAnswer> answer_for_traces(const Side& a, const Side& b, const CompareOptions& options,
                                        const TextStyle& style) {
  const Result<Comparison> comparison = compare(a.trace, b.trace, options);
  if (!comparison) {
    return tl::unexpected(comparison.error());
  }
  if (comparison->calls_a + comparison->calls_b == 0) {
    return failure(fmt::format("nothing to compare: {} and {} have no call but barriers and ignored ops",
                               a.argument, b.argument));
  }
  const bool order = options.order_counts;
  CompareAnswer answer{"", comparison_json(*comparison, order), comparison_csv(*comparison, order),
                       comparison->equal() && !(order && comparison->order_differs > 0),
                       question_on(a, b, *comparison)};
  const bool has_rules = a.is_prediction() || b.is_prediction();
  if (comparison->equal() || !has_rules) {
    answer.text = comparison_text(*comparison, order, style);
    return answer;
  }
  const Result<WhyCallsDiffer> why = why_calls_differ(a, b, *comparison, options);
  if (!why) {
    return tl::unexpected(why.error());
  }
  add_explanation(why->explanation, answer.json);
  answer.json["looks_like"] = guesses_json(why->guesses);
  if (!why->guesses.empty()) {
    answer.question.clear();  // one changed setting accounts for it
  }
  answer.text = comparison_head(*comparison, order, style) +
                explained_differences_text(why->differences, why->explanation, why->hints, style);
  return answer;
}

Result<CompareAnswer> answer_for(Side& a, Side& b, const CompareFlags& flags, Console& console) {
  Planner planner(console);
  const Result<std::optional<IterationRange>> range = iteration_range(flags.iterations);
  if (!range) {
    return tl::unexpected(range.error());
  }
  const Result<CompareOptions> options = options_of(flags, *range);
  if (!options) {
    return tl::unexpected(options.error());
  }
  const TextStyle style = style_for(console, flags.output);
  if (!a.is_config() && !b.is_config() && (flags.layout.any() || !flags.framework.empty())) {
    return failure(
        "both sides are traces: --framework and the layout flags are for configurations; leave them out");
  }
  if (flags.order && (a.is_log() || b.is_log())) {
    return failure(fmt::format("--order: {} is a printed summary, which has no order; leave --order out",
                               a.is_log() ? a.argument : b.argument));
  }
  if (a.is_log() != b.is_log()) {
    return answer_for_log(a, b, flags, *options, planner);
  }
  for (const auto& [side, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (side->is_config()) {
      if (const Result<void> done = predict_side(*side, *other, flags.layout, *range, planner); !done) {
        return tl::unexpected(done.error());
      }
    }
  }
  if (a.has_volumes_only() != b.has_volumes_only()) {
    return answer_for_volumes(a, b, flags, *options, planner);
  }
  if (one_lacks_iterations(a.trace, b.trace)) {
    return answer_for_whole_job(a, b, *options, style);
  }
  return answer_for_traces(a, b, *options, style);
}

Result<ExitCode> compare_verb(Console& console, const CompareFlags& flags) {
  if (const Result<void> usable = check_file_place("-o", flags.output.file); !usable) {
    return tl::unexpected(usable.error());
  }
  if (const Result<void> apart = check_apart("-o", flags.output.file, {flags.a, flags.b}); !apart) {
    return tl::unexpected(apart.error());
  }
  const auto [framework_a, framework_b] = frameworks_of(flags.framework);
  for (const std::string& framework : {framework_a, framework_b}) {
    if (const Result<std::string> known = checked_framework(framework); !known) {
      return tl::unexpected(known.error());
    }
  }
  Result<Side> a = read_side(console, flags.a, framework_a);
  if (!a) {
    return tl::unexpected(a.error());
  }
  Result<Side> b = read_side(console, flags.b, framework_b);
  if (!b) {
    return tl::unexpected(b.error());
  }
  if (flags.regression.asked()) {
    return flags.regression.run(console, *a, *b, flags.output);
  }
  Result<CompareAnswer> answer = answer_for(*a, *b, flags, console);
  if (!answer) {
    return tl::unexpected(answer.error());
  }
  // The verdict first, what it lets us ask, then what A and B are.
  std::string& text = answer->text;
  const std::size_t verdict_end = text.find('\n') + 1;
  const std::string head = text.substr(0, verdict_end) + answer->question +
                           fmt::format("A = {}\nB = {}\n", a->description(), b->description());
  text.replace(0, verdict_end, wrapped(head, style_for(console, flags.output)));
  for (const auto& [key, side] : {std::pair("a", &*a), std::pair("b", &*b)}) {
    answer->json[key] = side->description();
    if (side->is_prediction()) {
      answer->json["verified"][key] = side->trace.provenance.verified;
      answer->json["unverified"][key] = side->unverified;
    }
  }
  const Format format = flags.output.kind();
  write_result(console, flags.output,
               format == Format::table  ? text
               : format == Format::json ? json_result(answer->json)
                                        : answer->csv);
  return answer->equal ? ExitCode::done : ExitCode::differs;
}

}  // namespace

Action declare_compare(CLI::App& verb) {
  const auto flags = std::make_shared<CompareFlags>();
  verb.footer(k_compare_examples);
  const char* side = "A configuration (it is predicted), a native trace, or a file that import reads";
  verb.add_option("A", flags->a, side)->required();
  verb.add_option("B", flags->b, side)->required();
  verb.add_option("--iterations", flags->iterations,
                  "Only these (-1 is initialisation); default: those both have")
      ->type_name("FIRST-[LAST]");
  verb.add_option("--ignore-op", flags->ignored, "Leave this op out, may be repeated; barriers always are")
      ->type_name("OP")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb.add_flag("--order", flags->order, "Another order counts as a difference");
  verb.add_option("--framework", flags->framework,
                  "Whose rules predict a configuration; NAME,NAME for A and B")
      ->type_name("NAME");
  declare_output(verb, flags->output);
  flags->layout.declare(verb, false);
  flags->regression.declare(verb);
  return [flags](Console& console) { return compare_verb(console, *flags); };
}

}  // namespace commlens
