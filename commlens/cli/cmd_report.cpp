#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/report.hpp"
#include "commlens/base/units.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/layout_flags.hpp"

namespace commlens {
namespace {

constexpr const char* k_report_examples = R"(Examples:
  commlens report trace/
  commlens report case.yaml trace/ -o run.html --data figures/
  commlens report before/ after/ --title "Before and after"
  commlens report 1.3B --ranks 16 --zero 3)";

struct ReportFlags {
  std::vector<std::string> arguments;
  std::string framework;
  std::string iterations;
  std::optional<std::int64_t> rank;
  std::int64_t ranks_per_node = 0;
  LayoutFlags layout;
  std::string title;
  std::string file = "report.html";
  std::string data;
  bool force = false;
};

Result<ExitCode> report_verb(Console& console, const ReportFlags& flags) {
  const std::vector<std::string> files = all_files_of(flags.arguments);
  const Result<void> usable = check_page_place(flags.file, files, flags.force).and_then([&] {
    return check_figures_place(flags.data, files);
  });
  if (!usable) {
    return tl::unexpected(usable.error());
  }
  const Result<std::optional<IterationRange>> range = iteration_range(flags.iterations);
  if (!range) {
    return tl::unexpected(range.error());
  }
  const Result<Overrides> overrides = flags.layout.single();
  if (!overrides) {
    return tl::unexpected(overrides.error());
  }
  const Result<ReportPage> page =
      report({flags.arguments, flags.framework, *overrides, *range, flags.ranks_per_node, flags.title,
              events_of(console), rank_of(flags.rank)});
  if (!page) {
    return tl::unexpected(page.error());
  }
  if (!flags.data.empty()) {
    write_figures(flags.data, *page, events_of(console));
  }
  write_result(console, {.format = "table", .file = flags.file}, page->html);
  if (flags.file != "-") {
    console.out << fmt::format("{}: {} of {} figures, {}\n", flags.file, page->shown(), page->figures.size(),
                               to_text(Bytes{static_cast<std::int64_t>(page->html.size())}))
                << std::flush;
  }
  return ExitCode::done;
}

}  // namespace

Action declare_report(CLI::App& verb) {
  const auto flags = std::make_shared<ReportFlags>();
  verb.footer(k_report_examples);
  verb.add_option("TRACE|CONFIG", flags->arguments,
                  "Traces, files that import reads, and configurations (these are predicted; "
                  "MODEL+ds_config.json: several files); two are set against each other")
      ->required();
  verb.add_option("-o,--output", flags->file, "Write the page to this file; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
  verb.add_option("--data", flags->data, "Write every figure as JSON, CSV and SVG into this directory")
      ->type_name("DIR");
  verb.add_option("--title", flags->title, "Title of the page")->type_name("TEXT");
  verb.add_flag("--force", flags->force, "Overwrite a file that is no report");
  declare_iteration(verb, flags->iterations, "Only these (-1 is initialisation)");
  declare_rank(verb, flags->rank);
  verb.add_option("--framework", flags->framework,
                  "Whose rules predict a configuration; NAME,NAME for one each")
      ->type_name("NAME");
  verb.add_option("--gpus-per-node", flags->ranks_per_node, "Split wire bytes by node")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24).description(""))
      ->type_name("N");
  flags->layout.declare(verb);
  return [flags](Console& console) { return report_verb(console, *flags); };
}

}  // namespace commlens
