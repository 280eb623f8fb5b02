#include "commlens/formats/importers/importers.hpp"

#include <array>

#include <fmt/format.h>

#include "commlens/formats/importers/calls_csv.hpp"
#include "commlens/formats/importers/calls_jsonl.hpp"
#include "commlens/formats/importers/chakra_et.hpp"
#include "commlens/formats/importers/deepspeed_log.hpp"
#include "commlens/formats/importers/flight_recorder.hpp"
#include "commlens/formats/importers/imb.hpp"
#include "commlens/formats/importers/inspector.hpp"
#include "commlens/formats/importers/kineto.hpp"
#include "commlens/formats/importers/line_reader.hpp"
#include "commlens/formats/importers/mpip.hpp"
#include "commlens/formats/importers/nccl_log.hpp"
#include "commlens/formats/importers/nccl_tests.hpp"
#include "commlens/formats/importers/nsys.hpp"
#include "commlens/formats/importers/osu.hpp"
#include "commlens/formats/importers/otf2.hpp"
#include "commlens/formats/importers/profiler_plugin.hpp"
#include "commlens/formats/importers/pytorch_et.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_head = std::size_t{64} << 10;

constexpr std::array k_importers = {
    Importer{"otf2", sniff_otf2, read_otf2},
    Importer{"nsys", sniff_nsys, read_nsys},
    Importer{"calls-jsonl", sniff_calls_jsonl, read_calls_jsonl},
    Importer{"calls-csv", sniff_calls_csv, read_calls_csv},
    Importer{"kineto", sniff_kineto, read_kineto},
    Importer{"chakra-et", sniff_chakra_et, read_chakra_et},
    Importer{"flight-recorder", sniff_flight_recorder, read_flight_recorder},
    Importer{"pytorch-et", sniff_pytorch_et, read_pytorch_et},
    Importer{"nccl-inspector", sniff_inspector, read_inspector},
    Importer{"mpip", sniff_mpip, read_mpip},
    Importer{"nccl-profiler-plugin", sniff_profiler_plugin, read_profiler_plugin},
    Importer{"nccl-tests-json", sniff_nccl_tests_json, read_nccl_tests_json},
    // Those from here on search the text.
    Importer{"nccl-tests", sniff_nccl_tests, read_nccl_tests},
    Importer{"osu", sniff_osu, read_osu},
    Importer{"imb", sniff_imb, read_imb},
    Importer{"nccl-log", sniff_nccl_log, read_nccl_log},
    Importer{"deepspeed-log", sniff_deepspeed_log, read_deepspeed_log},
};

}  // namespace

std::span<const Importer> importers() { return k_importers; }

std::string importer_names() {
  std::string names;
  for (const Importer& importer : importers()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", importer.name);
  }
  return names;
}

namespace {

/// A pipe can be read once, so its head cannot be looked at first.
Result<Trace> import_pipe(const std::filesystem::path& path) {
  Result<Trace> trace = read_calls_jsonl(path);
  return trace ? std::move(trace)
               : failure(trace.error().message +
                         "; a pipe is read as calls JSON Lines: put other formats into a file");
}

}  // namespace

Result<Trace> import_any(const std::filesystem::path& path) {
  std::error_code status;
  if (path == "-") {
    return import_pipe(path);
  }
  if (std::filesystem::is_directory(path, status)) {
    return read_trace(path);
  }
  if (std::filesystem::exists(path, status) && !std::filesystem::is_regular_file(path, status)) {
    return import_pipe(path);
  }
  const Result<std::string> head = read_head(path, k_head);
  if (!head) {
    return tl::unexpected(head.error());
  }
  for (const Importer& importer : importers()) {
    if (importer.sniff(path, *head)) {
      return importer.read(path);
    }
  }
  return failure(fmt::format("{}: {}; expected a trace folder or one of: {}", path.string(),
                             head->empty() ? "the file is empty" : "no format we know", importer_names()));
}

}  // namespace commlens
