#include "commlens/formats/formats.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "commlens/formats/aicb/export.hpp"
#include "commlens/formats/calls_csv/export.hpp"
#include "commlens/formats/calls_csv/import.hpp"
#include "commlens/formats/calls_jsonl/export.hpp"
#include "commlens/formats/calls_jsonl/import.hpp"
#include "commlens/formats/chakra/export.hpp"
#include "commlens/formats/chakra/import.hpp"
#include "commlens/formats/deepspeed_log/import.hpp"
#include "commlens/formats/flight_recorder/import.hpp"
#include "commlens/formats/goal/export.hpp"
#include "commlens/formats/imb/import.hpp"
#include "commlens/formats/kineto/import.hpp"
#include "commlens/formats/kineto/sniff.hpp"
#include "commlens/formats/mpip/import.hpp"
#include "commlens/formats/nccl_inspector/import.hpp"
#include "commlens/formats/nccl_log/import.hpp"
#include "commlens/formats/nccl_profiler_plugin/import.hpp"
#include "commlens/formats/nccl_tests/import.hpp"
#include "commlens/formats/nsys/import.hpp"
#include "commlens/formats/osu/import.hpp"
#include "commlens/formats/otf2/export.hpp"
#include "commlens/formats/otf2/import.hpp"
#include "commlens/formats/perfetto/export.hpp"
#include "commlens/formats/pytorch_et/import.hpp"
#include "commlens/formats/sqlite/export.hpp"

namespace commlens::formats {

namespace {

/// A writer that cannot fail, as an exporter.
template <auto write>
Result<void> whole(const Trace& trace, const CallSelection& selection, const TextSink& sink) {
  write(trace, selection, sink);
  return {};
}

constexpr std::array k_importers = {
    Importer{"otf2", otf2::sniff, otf2::read},
    Importer{"nsys", nsys::sniff, nsys::read},
    Importer{"calls-jsonl", calls_jsonl::sniff, calls_jsonl::read},
    Importer{"calls-csv", calls_csv::sniff, calls_csv::read},
    Importer{"kineto", kineto::sniff, kineto::read},
    Importer{"chakra-et", chakra::sniff, chakra::read},
    Importer{"flight-recorder", flight_recorder::sniff, flight_recorder::read},
    Importer{"pytorch-et", pytorch_et::sniff, pytorch_et::read},
    Importer{"nccl-inspector", nccl_inspector::sniff, nccl_inspector::read},
    Importer{"mpip", mpip::sniff, mpip::read},
    Importer{"nccl-profiler-plugin", nccl_profiler_plugin::sniff, nccl_profiler_plugin::read},
    Importer{"nccl-tests-json", nccl_tests::sniff_json, nccl_tests::read_json},
    // Those from here on search the text.
    Importer{"nccl-tests", nccl_tests::sniff, nccl_tests::read},
    Importer{"osu", osu::sniff, osu::read},
    Importer{"imb", imb::sniff, imb::read},
    Importer{"nccl-log", nccl_log::sniff, nccl_log::read},
    Importer{"deepspeed-log", deepspeed_log::sniff, deepspeed_log::read},
};

const std::array k_exporters = {
    Exporter{.name = "calls",
             .description = "JSON Lines, one call per line",
             .takes_rank = true,
             .takes_compute = true,
             .stream = whole<calls_jsonl::write>},
    Exporter{.name = "csv",
             .description = "the same as CSV",
             .takes_rank = true,
             .takes_compute = true,
             .stream = whole<calls_csv::write>},
    Exporter{.name = "perfetto",
             .description = "Chrome trace JSON, opens in ui.perfetto.dev",
             .takes_rank = true,
             .stream = perfetto::write},
    Exporter{.name = "chakra",
             .description = "Chakra execution traces, one file per rank",
             .is_text = false,
             .takes_rank = true,
             .directory = chakra::write},
    Exporter{.name = "otf2",
             .description = "an archive for Vampir and its kin, a directory or NAME.otf2",
             .is_text = false,
             .directory = otf2::write,
             .anchor = "traces.otf2"},
    Exporter{.name = "goal",
             .description = "a schedule of messages for LogGOPSim and ATLAHS",
             .stream = goal::write},
    Exporter{.name = "aicb",
             .description = "a workload of AICB (CSV), one rank's",
             .takes_rank = true,
             .stream = aicb::write},
    Exporter{.name = "sqlite",
             .description = "tables and views for SQL",
             .is_text = false,
             .file = sqlite::write}};

}  // namespace

std::span<const Importer> importers() { return k_importers; }

std::string importer_names() {
  std::string names;
  for (const Importer& importer : importers()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", importer.name);
  }
  return names;
}

std::span<const Exporter> exporters() { return k_exporters; }

const Exporter* exporter_named(std::string_view name) {
  const auto* const found = std::find_if(k_exporters.begin(), k_exporters.end(),
                                         [&](const Exporter& exporter) { return exporter.name == name; });
  return found == k_exporters.end() ? nullptr : found;
}

}  // namespace commlens::formats
