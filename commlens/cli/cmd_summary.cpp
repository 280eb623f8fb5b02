#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/cli/command.hpp"
#include "commlens/cli/json_result.hpp"
#include "commlens/cli/output_place.hpp"
#include "commlens/cli/summary_subject.hpp"
#include "commlens/cli/summary_text.hpp"
#include "commlens/cli/trace_source.hpp"
#include "commlens/report/histogram_report.hpp"

namespace commlens {
namespace {

constexpr const char* k_summary_examples = R"(Examples:
  commlens summary calls.jsonl.gz
  commlens summary run.log --format csv
  commlens summary trace/ --rank 0 --iterations 1-
  commlens summary trace/ --by phase,iteration --link-bandwidth 25)";

struct SummaryFlags {
  std::string trace;
  std::optional<std::int64_t> rank;
  std::string iterations;
  std::int64_t ranks_per_node = 0;
  std::vector<std::string> by;
  std::optional<double> link_gb_per_s;
  bool sizes = false;
  bool no_stragglers = false;
  OutputFlags output;

  bool is_by(std::string_view what) const { return std::find(by.begin(), by.end(), what) != by.end(); }
};

SummaryWish wish_of(const SummaryFlags& flags) {
  SummaryWish wish{.trace = flags.trace, .iterations = flags.iterations, .options = {}};
  if (flags.rank) {
    wish.options.rank = Rank{*flags.rank};
  }
  wish.options.ranks_per_node = flags.ranks_per_node;
  wish.options.by_phase = flags.is_by("phase");
  wish.options.by_iteration = flags.is_by("iteration");
  wish.with_timing = !flags.sizes && flags.output.kind() != Format::csv;
  wish.with_stragglers = !flags.no_stragglers;
  wish.most_calls = flags.output.kind() == Format::json ? k_most_calls_in_memory : k_most_calls_for_totals;
  return wish;
}

std::string all_of(const SummaryView& view, Format format, const TextStyle& style) {
  switch (format) {
    case Format::table:
      return summary_text(view, style);
    case Format::json:
      return json_result(summary_json(view));
    case Format::csv:
      return summary_csv(view);
  }
  return {};
}

std::string sizes_of(const SummaryView& view, Format format, const TextStyle& style) {
  const SizeHistogram& sizes = view.subject.summary.sizes;
  switch (format) {
    case Format::table:
      return histogram_text(sizes, style);
    case Format::json:
      return json_result(histogram_json(sizes, view.scope()));
    case Format::csv:
      return histogram_csv(sizes);
  }
  return {};
}

Result<ExitCode> show_summary(Console& console, const SummaryFlags& flags) {
  if (const Result<void> usable = check_file_place("-o", flags.output.file); !usable) {
    return tl::unexpected(usable.error());
  }
  const SummaryWish wish = wish_of(flags);
  if (const Result<void> apart = check_apart("-o", flags.output.file, {flags.trace}); !apart) {
    return tl::unexpected(apart.error());
  }
  const Result<SummarySubject> subject = summary_subject(console, wish);
  if (subject && wish.options.ranks_per_node > 0) {
    if (const Result<void> known = check_groups_are_known(subject->trace); !known) {
      return tl::unexpected(known.error());
    }
  }
  if (!subject) {
    return tl::unexpected(subject.error());
  }
  SummaryView view{*subject, shown_name(flags.trace), subject->options};
  if (flags.link_gb_per_s) {
    view.link = BytesPerSecond{*flags.link_gb_per_s * 1e9};
  }
  view.with_stragglers = !flags.no_stragglers;
  const TextStyle style = style_for(console, flags.output);
  write_result(console, flags.output, (flags.sizes ? sizes_of : all_of)(view, flags.output.kind(), style));
  return ExitCode::done;
}

}  // namespace

Action declare_summary(CLI::App& verb) {
  const auto flags = std::make_shared<SummaryFlags>();
  verb.footer(k_summary_examples);
  verb.add_option("TRACE", flags->trace, "A native trace, or a file that import reads; - is standard input")
      ->required();
  verb.add_option("--rank", flags->rank, "Only this rank")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{999'999'999}))
      ->type_name("R");
  verb.add_option("--iterations", flags->iterations, "Only these (-1 is initialisation)")
      ->type_name("FIRST-[LAST]");
  verb.add_option("--by", flags->by, "Split the rows of each op and group")
      ->delimiter(',')
      ->check(CLI::IsMember({"phase", "iteration"}))
      ->type_name("phase,iteration");
  verb.add_option("--link-bandwidth", flags->link_gb_per_s,
                  "What a link carries in one direction, to compare bus bandwidth with")
      ->check(CLI::Range(1e-6, 1e9))
      ->type_name("GB/s");
  verb.add_option("--gpus-per-node", flags->ranks_per_node,
                  "Split wire bytes into those within and between nodes")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->type_name("N");
  verb.add_flag("--sizes", flags->sizes, "Only the distribution of message sizes");
  verb.add_flag("--no-stragglers", flags->no_stragglers,
                "Do not match the calls of the ranks to see who waited for whom, which takes time");
  declare_output(verb, flags->output);
  return [flags](Console& console) { return show_summary(console, *flags); };
}

}  // namespace commlens
