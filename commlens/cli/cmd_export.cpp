#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "commlens/app/export_trace.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/layout_flags.hpp"
#include "commlens/formats/formats.hpp"

namespace commlens {
namespace {

constexpr const char* k_export_examples = R"(Examples:
  commlens export trace/ --to calls -o calls.jsonl.gz
  commlens export trace/ --to csv --rank 0
  commlens export trace/ --to perfetto -o trace.json.gz
  commlens export 1.3B --dp 4 --zero 3 --iterations 2 --to chakra -o workload/)";

struct ExportFlags {
  std::vector<std::string> input;
  std::string framework;
  LayoutFlags layout;
  std::string to;
  std::string file = "-";
  std::optional<std::int64_t> rank;
  bool compute = false;
};

Result<ExitCode> export_verb(Console& console, const ExportFlags& flags) {
  const formats::Exporter& exporter = *formats::exporter_named(flags.to);
  const bool is_standard_output = flags.file == "-";
  if (is_standard_output && !exporter.is_text && exporter.stream != nullptr && isatty(STDOUT_FILENO) == 1) {
    return failure(fmt::format("--to {} is not for terminals; name a file with -o", flags.to));
  }
  const Result<Overrides> overrides = flags.layout.single();
  if (!overrides) {
    return tl::unexpected(overrides.error());
  }
  ExportRequest request;
  request.input = flags.input;
  request.framework = flags.framework;
  request.overrides = *overrides;
  request.format = flags.to;
  request.file = is_standard_output ? "" : flags.file;
  request.sink = [&](std::string_view block) { write_out(console, block); };
  request.rank = rank_of(flags.rank);
  request.compute = flags.compute;
  request.events = events_of(console);
  return export_trace(request).map([] { return ExitCode::done; });
}

/// "calls (JSON Lines, one call per line), csv (…), …".
std::string list_of_exporters() {
  std::string text;
  for (const formats::Exporter& exporter : formats::exporters()) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", exporter.name, exporter.description);
  }
  return text;
}

std::vector<std::string> exporter_names() {
  std::vector<std::string> names;
  for (const formats::Exporter& exporter : formats::exporters()) {
    names.emplace_back(exporter.name);
  }
  return names;
}

}  // namespace

Action declare_export(CLI::App& verb) {
  const auto flags = std::make_shared<ExportFlags>();
  verb.footer(k_export_examples);
  verb.add_option("INPUT", flags->input,
                  "A native trace, a file that import reads, or a configuration, whose prediction is written")
      ->required();
  verb.add_option("--to", flags->to, list_of_exporters())->required()->check(CLI::IsMember(exporter_names()));
  verb.add_option("--framework", flags->framework, "Of a configuration: whose rules (see commlens predict)")
      ->type_name("NAME");
  verb.add_option("-o,--output", flags->file,
                  "The file or directory; - is standard output, .gz compresses what is one text")
      ->capture_default_str()
      ->type_name("FILE");
  declare_rank(verb, flags->rank, fmt::format(" ({})", exporters_with(&formats::Exporter::takes_rank)));
  verb.add_flag("--compute", flags->compute,
                fmt::format("Also write when each rank computed, as lines with the op \"compute\" ({})",
                            exporters_with(&formats::Exporter::takes_compute)));
  flags->layout.declare(verb, LayoutFlags::Verb::predicted);
  return [flags](Console& console) { return export_verb(console, *flags); };
}

}  // namespace commlens
