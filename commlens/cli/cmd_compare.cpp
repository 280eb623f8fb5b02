#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/compare.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/layout_flags.hpp"
#include "commlens/cli/regression_flags.hpp"

namespace commlens {
namespace {

constexpr const char* k_compare_examples = R"(Examples:
  commlens compare case.yaml calls.jsonl.gz
  commlens compare 1-3B.yml run.log
  commlens compare 1.3B+ds_config.json calls.jsonl --rank 0
  commlens compare 1.3B 1.3B --framework paper,deepspeed --ranks 16 --zero 3
  commlens compare job.yaml job.yaml --framework torch@2.9.1,torch@2.15.0
Exit code: 0 equal, 1 different, 2 bad input.)";

struct CompareFlags {
  std::string a;
  std::string b;
  std::string framework;
  std::string iterations;
  std::optional<std::int64_t> rank;
  std::vector<std::string> ignored;
  bool order = false;
  LayoutFlags layout;
  OutputFlags output;
  RegressionFlags regression;
};

Result<std::vector<CommKind>> kinds_of(const std::vector<std::string>& names) {
  std::vector<CommKind> kinds;
  for (const std::string& name : names) {
    const std::optional<CommKind> kind = comm_kind_from(name);
    if (!kind) {
      return failure(
          fmt::format("--ignore-op {}: there is no such op; choose all_reduce, all_gather, reduce_scatter, "
                      "all_to_all, broadcast, reduce, send, recv or other",
                      name));
    }
    kinds.push_back(*kind);
  }
  return kinds;
}

Result<ExitCode> compare_calls(Console& console, const CompareFlags& flags) {
  const Result<std::optional<IterationRange>> range = iteration_range(flags.iterations);
  if (!range) {
    return tl::unexpected(range.error());
  }
  const Result<std::vector<CommKind>> ignored = kinds_of(flags.ignored);
  if (!ignored) {
    return tl::unexpected(ignored.error());
  }
  const Result<Overrides> overrides = flags.layout.single();
  if (!overrides) {
    return tl::unexpected(overrides.error());
  }
  return compare(CompareRequest{flags.a, flags.b, flags.framework, *overrides, *range, *ignored, flags.order,
                                events_of(console), rank_of(flags.rank)})
      .map([&](const CompareResult& result) {
        write_rendered(console, flags.output, result);
        return result.equal() ? ExitCode::done : ExitCode::differs;
      });
}

Result<ExitCode> compare_verb(Console& console, const CompareFlags& flags) {
  if (const Result<void> usable = check_output_place(flags.output.file, all_files_of({flags.a, flags.b}));
      !usable) {
    return tl::unexpected(usable.error());
  }
  if (!flags.regression.asked()) {
    return compare_calls(console, flags);
  }
  return flags.regression.options()
      .and_then([&](const RegressionOptions& options) {
        return compare_times({flags.a, flags.b, options, events_of(console)});
      })
      .map([&](const RegressionResult& result) {
        write_rendered(console, flags.output, result);
        return result.regression.any_slower() ? ExitCode::differs : ExitCode::done;
      });
}

}  // namespace

Action declare_compare(CLI::App& verb) {
  const auto flags = std::make_shared<CompareFlags>();
  verb.footer(k_compare_examples);
  const char* side =
      "A configuration (it is predicted; MODEL+ds_config.json: several files), a native trace, or a file "
      "that "
      "import reads";
  verb.add_option("A", flags->a, side)->required();
  verb.add_option("B", flags->b, side)->required();
  declare_iteration(verb, flags->iterations, "Only these (-1 is initialisation); default: those both have");
  declare_rank(verb, flags->rank);
  verb.add_option("--ignore-op", flags->ignored, "Leave this op out, may be repeated; barriers always are")
      ->type_name("OP")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb.add_flag("--order", flags->order, "Another order counts as a difference");
  verb.add_option("--framework", flags->framework,
                  "Whose rules predict a configuration; NAME,NAME for A and B")
      ->type_name("NAME[@VERSION]");
  declare_output(verb, flags->output);
  flags->layout.declare(verb);
  flags->regression.declare(verb);
  return [flags](Console& console) { return compare_verb(console, *flags); };
}

}  // namespace commlens
