#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/cli/command.hpp"
#include "commlens/cli/progress.hpp"
#include "commlens/cli/trace_source.hpp"
#include "commlens/formats/exporters/exporters.hpp"

namespace commlens {
namespace {

constexpr const char* k_export_examples = R"(Examples:
  commlens export trace/ --to calls -o calls.jsonl.gz
  commlens export trace/ --to csv --rank 0)";

struct ExportFlags {
  std::string trace;
  std::string to;
  std::string file = "-";
  std::optional<std::int64_t> rank;
  bool compute = false;
};

/// Lines the file will have, as far as an integer goes.
std::int64_t line_count(const Trace& trace, const CallSelection& selection) {
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

Result<ExitCode> export_trace(Console& console, const ExportFlags& flags) {
  const Result<Trace> trace = open_trace(console, flags.trace);
  if (!trace) {
    return tl::unexpected(trace.error());
  }
  if (trace->provenance.accounting == Accounting::deepspeed_logger) {
    return failure(fmt::format(
        "{}: a printed log has rounded sizes and no groups; calls cannot carry them; export it from a trace "
        "that does",
        flags.trace));
  }
  const std::optional<Rank> rank = flags.rank ? std::optional(Rank{*flags.rank}) : std::nullopt;
  if (rank && trace->stream_of(*rank) == nullptr) {
    return failure(fmt::format("--rank {}: the trace has no calls of that rank, its highest is {}",
                               rank->value, trace->ranks() - 1));
  }
  const CallSelection selection{.rank = rank, .compute = flags.compute};
  Progress progress(console, "writing calls", line_count(*trace, selection));
  write_blocks(console, flags.file, [&](const TextSink& sink) {
    const auto counting = [&](std::string_view block) {
      sink(block);
      progress.add(std::count(block.begin(), block.end(), '\n'));
    };
    flags.to == "csv" ? write_calls_csv(*trace, selection, counting)
                      : write_calls_jsonl(*trace, selection, counting);
  });
  return ExitCode::done;
}

}  // namespace

Action declare_export(CLI::App& verb) {
  const auto flags = std::make_shared<ExportFlags>();
  verb.footer(k_export_examples);
  verb.add_option("TRACE", flags->trace, "A native trace, or a file that import reads")->required();
  verb.add_option("--to", flags->to, "calls (JSON Lines) or csv")
      ->required()
      ->check(CLI::IsMember({"calls", "csv"}));
  verb.add_option("-o,--output", flags->file, "The file; - is standard output, .gz compresses")
      ->capture_default_str()
      ->type_name("FILE");
  verb.add_option("--rank", flags->rank, "Only this rank")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{999'999'999}))
      ->type_name("R");
  verb.add_flag("--compute", flags->compute,
                "Also write when each rank computed, as lines with the op \"compute\"");
  return [flags](Console& console) { return export_trace(console, *flags); };
}

}  // namespace commlens
