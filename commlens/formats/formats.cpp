#include "commlens/formats/formats.hpp"

#include <algorithm>
#include <array>

#include "commlens/formats/aicb/export.hpp"
#include "commlens/formats/chakra/export.hpp"
#include "commlens/formats/goal/export.hpp"
#include "commlens/formats/otf2/export.hpp"
#include "commlens/formats/perfetto/export.hpp"
#include "commlens/formats/sqlite/export.hpp"

namespace commlens {
namespace {

Result<void> stream_jsonl(const Trace& trace, const CallSelection& selection, const TextSink& sink) {
  write_calls_jsonl(trace, selection, sink);
  return {};
}

Result<void> stream_csv(const Trace& trace, const CallSelection& selection, const TextSink& sink) {
  write_calls_csv(trace, selection, sink);
  return {};
}

const std::array k_exporters = {
    Exporter{.name = "calls",
             .description = "JSON Lines, one call per line",
             .takes_rank = true,
             .takes_compute = true,
             .stream = stream_jsonl},
    Exporter{.name = "csv",
             .description = "the same as CSV",
             .takes_rank = true,
             .takes_compute = true,
             .stream = stream_csv},
    Exporter{.name = "perfetto",
             .description = "Chrome trace JSON, opens in ui.perfetto.dev",
             .takes_rank = true,
             .stream = write_perfetto},
    Exporter{.name = "chakra",
             .description = "Chakra execution traces, one file per rank",
             .is_text = false,
             .takes_rank = true,
             .folder = write_chakra},
    Exporter{.name = "otf2",
             .description = "an archive for Vampir and its kin, a folder or NAME.otf2",
             .is_text = false,
             .folder = write_otf2,
             .anchor = "traces.otf2"},
    Exporter{.name = "goal",
             .description = "a schedule of messages for LogGOPSim and ATLAHS",
             .stream = write_goal},
    Exporter{.name = "aicb",
             .description = "a workload of AICB (CSV), one rank's",
             .takes_rank = true,
             .stream = write_aicb},
    Exporter{
        .name = "sqlite", .description = "tables and views for SQL", .is_text = false, .file = write_sqlite}};

}  // namespace

std::span<const Exporter> exporters() { return k_exporters; }

const Exporter* exporter_named(std::string_view name) {
  const auto* const found = std::find_if(k_exporters.begin(), k_exporters.end(),
                                         [&](const Exporter& exporter) { return exporter.name == name; });
  return found == k_exporters.end() ? nullptr : found;
}

}  // namespace commlens
