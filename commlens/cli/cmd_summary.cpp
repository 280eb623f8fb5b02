#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>

#include "commlens/app/output_place.hpp"
#include "commlens/app/summarise.hpp"
#include "commlens/app/summary_text.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/cli/command.hpp"

namespace commlens {
namespace {

constexpr const char* k_summary_examples = R"(Examples:
  commlens summary calls.jsonl.gz
  commlens summary run.log --format csv
  commlens summary trace/ --rank 0 --iteration 1-
  commlens summary trace/ --by phase,iteration
  commlens summary trace/ --by size --link-bandwidth 25
  commlens summary trace/ --call-sites)";

struct SummaryFlags {
  std::string trace;
  std::optional<std::int64_t> rank;
  std::string iterations;
  std::int64_t ranks_per_node = 0;
  std::vector<std::string> by;
  std::optional<double> link_gb_per_s;
  bool call_sites = false;
  bool sizes = false;
  bool no_stragglers = false;
  OutputFlags output;

  bool is_by(std::string_view what) const { return std::find(by.begin(), by.end(), what) != by.end(); }
};

SummaryRequest request_of(const SummaryFlags& flags, Console& console) {
  SummaryRequest request;
  request.trace = flags.trace;
  request.options.rank = rank_of(flags.rank);
  request.options.ranks_per_node = flags.ranks_per_node;
  request.options.by_phase = flags.is_by("phase");
  request.options.by_iteration = flags.is_by("iteration");
  request.options.by_size = flags.is_by("size");
  request.options.by_site = flags.call_sites;
  request.with_timing = !flags.sizes && flags.output.kind() != Format::csv;
  request.with_stragglers = !flags.no_stragglers;
  request.most_calls = flags.output.kind() == Format::json ? k_most_calls_in_memory : k_most_calls_for_totals;
  request.events = events_of(console);
  return request;
}

Result<ExitCode> show_summary(Console& console, const SummaryFlags& flags) {
  if (const Result<void> usable = check_output_place(flags.output.file, {flags.trace}); !usable) {
    return tl::unexpected(usable.error());
  }
  SummaryRequest request = request_of(flags, console);
  const Result<std::optional<IterationRange>> range = iteration_range(flags.iterations);
  if (!range) {
    return tl::unexpected(range.error());
  }
  request.options.iterations = *range;
  const Result<SummarySubject> subject = summarise(request);
  if (!subject) {
    return tl::unexpected(subject.error());
  }
  SummaryView view{*subject, shown_name(flags.trace), subject->options};
  if (flags.link_gb_per_s) {
    view.link = BytesPerSecond{*flags.link_gb_per_s * 1e9};
  }
  view.with_stragglers = !flags.no_stragglers;
  const Format format = flags.output.kind();
  const TextStyle style = style_for(console, flags.output);
  write_result(console, flags.output,
               flags.sizes ? rendered_sizes(view, format, style) : rendered(view, format, style));
  return ExitCode::done;
}

}  // namespace

Action declare_summary(CLI::App& verb) {
  const auto flags = std::make_shared<SummaryFlags>();
  verb.footer(k_summary_examples);
  verb.add_option("TRACE", flags->trace, "A native trace, or a file that import reads; - is standard input")
      ->required();
  declare_rank(verb, flags->rank);
  declare_iteration(verb, flags->iterations, "Only these (-1 is initialisation)");
  verb.add_option(
          "--by", flags->by,
          "Split the rows of each op and group; size: P50, P95 and bus bandwidth by exact message size")
      ->delimiter(',')
      ->check(CLI::IsMember({"phase", "iteration", "size"}))
      ->type_name("phase,iteration,size");
  verb.add_option("--link-bandwidth", flags->link_gb_per_s,
                  "What a link carries in one direction, to compare bus bandwidth with")
      ->check(CLI::Range(1e-6, 1e9))
      ->type_name("GB/s");
  verb.add_option("--gpus-per-node", flags->ranks_per_node,
                  "Split wire bytes into those within and between nodes")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->type_name("N");
  verb.add_flag(
      "--call-sites", flags->call_sites,
      "Split the rows by where the program made its calls (record --call-sites): function, file and line");
  verb.add_flag("--sizes", flags->sizes, "Only the distribution of message sizes");
  verb.add_flag("--no-stragglers", flags->no_stragglers,
                "Do not match the calls of the ranks to see who waited for whom, which takes time");
  declare_output(verb, flags->output);
  return [flags](Console& console) { return show_summary(console, *flags); };
}

}  // namespace commlens
