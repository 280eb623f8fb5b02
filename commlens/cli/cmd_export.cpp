#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "commlens/cli/command.hpp"
#include "commlens/cli/output_place.hpp"
#include "commlens/cli/progress.hpp"
#include "commlens/cli/trace_source.hpp"
#include "commlens/formats/formats.hpp"
#include "commlens/formats/write_export.hpp"
#include "commlens/report/coverage_report.hpp"

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

/// Lines the file will have, as far as an integer goes.
std::int64_t line_count(const Trace& trace, const formats::CallSelection& selection) {
  double lines = 0;
  for (const RankStream& stream : trace.streams) {
    const std::int64_t ranks = !selection.rank                          ? stream.ranks.count()
                               : stream.ranks.contains(*selection.rank) ? 1
                                                                        : 0;
    const std::size_t of_rank = stream.events.size() + (selection.compute ? stream.compute.size() : 0);
    lines += static_cast<double>(of_rank) * static_cast<double>(ranks);
  }
  return static_cast<std::int64_t>(std::min(lines, 9.0e18));
}

/// The exporters that know a flag: "calls, csv".
std::string names_that_take(bool formats::Exporter::* flag) {
  std::string names;
  for (const formats::Exporter& each : formats::exporters()) {
    names += each.*flag ? fmt::format("{}{}", names.empty() ? "" : ", ", each.name) : "";
  }
  return names;
}

/// What the flags ask of an exporter that it does not do.
Result<void> check_flags(const formats::Exporter& exporter, const ExportFlags& flags) {
  if (flags.rank && !exporter.takes_rank) {
    return failure(fmt::format("--rank goes with --to {}; {} has all ranks",
                               names_that_take(&formats::Exporter::takes_rank), flags.to));
  }
  if (flags.compute && !exporter.takes_compute) {
    return failure(fmt::format("--compute goes with --to {}, not with {}",
                               names_that_take(&formats::Exporter::takes_compute), flags.to));
  }
  if (flags.file == "-" && exporter.stream == nullptr) {
    return failure(fmt::format("--to {} writes a {}; name it with -o", flags.to,
                               exporter.folder != nullptr ? "folder" : "file"));
  }
  if (const Result<void> usable =
          (exporter.folder != nullptr ? check_folder_place : check_file_place)("-o", flags.file);
      !usable) {
    return usable;
  }
  if (flags.file == "-" && !exporter.is_text && isatty(STDOUT_FILENO) == 1) {
    return failure(fmt::format("--to {} is not for terminals; name a file with -o", flags.to));
  }
  return {};
}

Result<void> write(Console& console, const formats::Exporter& exporter, const Trace& trace,
                   const ExportFlags& flags) {
  const std::optional<Rank> rank = flags.rank ? std::optional(Rank{*flags.rank}) : std::nullopt;
  const formats::CallSelection selection{.rank = rank, .compute = flags.compute};
  const bool is_lines = exporter.takes_compute;  // one line per call
  Progress progress(console, fmt::format("writing {}", flags.to),
                    is_lines ? line_count(trace, selection) : 0);
  if (exporter.stream == nullptr) {
    return formats::write_export(exporter, trace, selection, flags.file);
  }
  return try_write_blocks(console, flags.file, [&](const formats::TextSink& sink) {
    return exporter.stream(trace, selection, [&](std::string_view block) {
      sink(block);
      progress.add(is_lines ? std::count(block.begin(), block.end(), '\n') : 0);
    });
  });
}

Result<ExitCode> export_trace(Console& console, const ExportFlags& flags) {
  const formats::Exporter& exporter = *formats::exporter_named(flags.to);
  if (const Result<void> checked = check_flags(exporter, flags); !checked) {
    return tl::unexpected(checked.error());
  }
  if (const Result<void> apart = check_apart("-o", flags.file, {flags.trace}); !apart) {
    return tl::unexpected(apart.error());
  }
  const Result<Trace> trace = open_trace(console, flags.trace);
  if (!trace) {
    return tl::unexpected(trace.error());
  }
  if (trace->provenance.accounting == Accounting::comms_logger) {
    return failure(fmt::format(
        "{}: a printed log has rounded sizes and no groups; calls cannot carry them; export it from a trace "
        "that does",
        shown_name(flags.trace)));
  }
  if (flags.rank && trace->stream_of(Rank{*flags.rank}) == nullptr) {
    return failure(fmt::format("--rank {}: the trace has no calls of that rank, its highest is {}",
                               *flags.rank, trace->ranks() - 1));
  }
  warn_of_lost_calls(console, flags.trace, *trace);
  if (trace->provenance.averaged_times) {
    warn(console, fmt::format("the times of {} are {}", shown_name(flags.trace), k_averages_text));
  }
  if (const Result<void> written = write(console, exporter, *trace, flags); !written) {
    return tl::unexpected(written.error());
  }
  return ExitCode::done;
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
                  fmt::format("Only this rank ({})", names_that_take(&formats::Exporter::takes_rank)))
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{999'999'999}))
      ->type_name("R");
  verb.add_flag("--compute", flags->compute,
                fmt::format("Also write when each rank computed, as lines with the op \"compute\" ({})",
                            names_that_take(&formats::Exporter::takes_compute)));
  return [flags](Console& console) { return export_trace(console, *flags); };
}

}  // namespace commlens
