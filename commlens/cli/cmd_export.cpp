#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "commlens/app/export_trace.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/formats/formats.hpp"

namespace commlens {
namespace {

constexpr const char* k_export_examples = R"(Examples:
  commlens export trace/ --to calls -o calls.jsonl.gz
  commlens export trace/ --to csv --rank 0
  commlens export trace/ --to perfetto -o trace.json.gz)";

struct ExportFlags {
  std::string trace;
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
  ExportRequest request;
  request.trace = flags.trace;
  request.format = flags.to;
  request.file = is_standard_output ? "" : flags.file;
  request.sink = [&](std::string_view block) { write_out(console, block); };
  request.rank = flags.rank ? std::optional(Rank{*flags.rank}) : std::nullopt;
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
  verb.add_option("TRACE", flags->trace, "A native trace, or a file that import reads")->required();
  verb.add_option("--to", flags->to, list_of_exporters())->required()->check(CLI::IsMember(exporter_names()));
  verb.add_option("-o,--output", flags->file,
                  "The file or folder; - is standard output, .gz compresses what is one text")
      ->capture_default_str()
      ->type_name("FILE");
  verb.add_option("--rank", flags->rank,
                  fmt::format("Only this rank ({})", exporters_with(&formats::Exporter::takes_rank)))
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{999'999'999}))
      ->type_name("R");
  verb.add_flag("--compute", flags->compute,
                fmt::format("Also write when each rank computed, as lines with the op \"compute\" ({})",
                            exporters_with(&formats::Exporter::takes_compute)));
  return [flags](Console& console) { return export_verb(console, *flags); };
}

}  // namespace commlens
