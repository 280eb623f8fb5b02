#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/base/units.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/output_place.hpp"
#include "commlens/cli/trace_source.hpp"
#include "commlens/formats/formats.hpp"
#include "commlens/report/coverage_report.hpp"
#include "commlens/summary/stragglers.hpp"
#include "commlens/trace/merge_traces.hpp"
#include "commlens/trace/trace_file.hpp"
#include "commlens/trace/trace_folder.hpp"

namespace commlens {
namespace {

constexpr const char* k_import_examples = R"(Examples:
  commlens import calls.jsonl.gz -o trace/
  commlens import log/rank*.pt.trace.json.gz -o trace/)";

struct ImportFlags {
  std::vector<std::string> files;
  std::string folder;
};

/// Of calls of several files: how many find their counterparts on the other ranks.
std::string matched_text(const Trace& trace) {
  const Stragglers found = stragglers(trace);
  if (found.instances + found.messages + found.incomplete == 0) {
    return "";
  }
  return fmt::format("; {} collectives and {} messages matched between ranks, {} lack the call of a rank",
                     with_commas(found.instances), with_commas(found.messages),
                     with_commas(found.incomplete));
}

Result<ExitCode> import_files(Console& console, const ImportFlags& flags) {
  if (const Result<void> usable = check_trace_target(flags.folder); !usable) {
    return failure("-o " + usable.error().message);
  }
  if (const Result<void> usable = check_folder_place("-o", flags.folder); !usable) {
    return tl::unexpected(usable.error());
  }
  if (const Result<void> apart = check_apart("-o", flags.folder, flags.files); !apart) {
    return tl::unexpected(apart.error());
  }
  std::vector<Trace> traces;
  for (const std::string& file : flags.files) {
    Result<Trace> trace = open_trace(console, file);
    if (!trace) {
      return tl::unexpected(trace.error());
    }
    traces.push_back(std::move(*trace));
  }
  const Result<Trace> trace = merged(std::move(traces), flags.files);
  if (!trace) {
    return tl::unexpected(trace.error());
  }
  write_trace(*trace, flags.folder);
  double calls = 0;  // of all ranks
  std::int64_t ranks = 0;
  for (const RankStream& stream : trace->streams) {
    ranks += stream.ranks.count();
    calls += static_cast<double>(stream.events.size()) * static_cast<double>(stream.ranks.count());
  }
  const std::string skipped = reasons_text(trace->provenance.skipped);
  const std::string assumed = reasons_text(trace->provenance.assumed);
  const std::string matched = flags.files.size() > 1 ? matched_text(*trace) : "";
  console.out << fmt::format("{}: {} call{}, {} rank{}{}{}{}\n", flags.folder,
                             with_commas(static_cast<std::int64_t>(calls)), calls == 1 ? "" : "s",
                             with_commas(ranks), ranks == 1 ? "" : "s", matched,
                             skipped.empty() ? "" : "; left out: " + skipped,
                             assumed.empty() ? "" : "; assumed: " + assumed)
              << std::flush;
  return ExitCode::done;
}

}  // namespace

Action declare_import(CLI::App& verb) {
  const auto flags = std::make_shared<ImportFlags>();
  verb.footer(k_import_examples);
  verb.add_option(
          "FILE", flags->files,
          fmt::format("Several files are one job. Read by their content: {}", formats::importer_names()))
      ->required();
  verb.add_option("-o,--output", flags->folder, "Folder of the native trace; a trace there is replaced")
      ->required()
      ->type_name("DIR");
  return [flags](Console& console) { return import_files(console, *flags); };
}

}  // namespace commlens
