#include "commlens/formats/import_any.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/formats/calls_csv/import.hpp"
#include "commlens/formats/calls_jsonl/import.hpp"
#include "commlens/formats/chakra/import.hpp"
#include "commlens/formats/deepspeed_log/import.hpp"
#include "commlens/formats/flight_recorder/import.hpp"
#include "commlens/formats/imb/import.hpp"
#include "commlens/formats/io/cut_off.hpp"
#include "commlens/formats/io/line_reader.hpp"
#include "commlens/formats/io/spool.hpp"
#include "commlens/formats/kineto/import.hpp"
#include "commlens/formats/kineto/sniff.hpp"
#include "commlens/formats/known_formats.hpp"
#include "commlens/formats/mpip/import.hpp"
#include "commlens/formats/nccl_inspector/import.hpp"
#include "commlens/formats/nccl_log/import.hpp"
#include "commlens/formats/nccl_profiler_plugin/import.hpp"
#include "commlens/formats/nccl_tests/import.hpp"
#include "commlens/formats/nsys/import.hpp"
#include "commlens/formats/osu/import.hpp"
#include "commlens/formats/otf2/import.hpp"
#include "commlens/formats/pytorch_et/import.hpp"
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

const Importer* importer_for(const std::filesystem::path& path, std::string_view head) {
  const auto* const found = std::find_if(k_importers.begin(), k_importers.end(),
                                         [&](const Importer& each) { return each.sniff(path, head); });
  return found == k_importers.end() ? nullptr : found;
}

/// `name` is the path as messages show it.
Error unknown_format(const std::string& name, std::string_view head) {
  if (head.empty()) {
    return {
        fmt::format("{}: the file is empty; expected a trace folder or one of: {}", name, importer_names())};
  }
  const std::string known = unreadable_format(name, head);
  return {known.empty() ? fmt::format("{}: no format we know; expected a trace folder or one of: {}", name,
                                      importer_names())
                        : fmt::format("{}: {}", name, known)};
}

Result<Trace> read_folder(const std::filesystem::path& folder) {
  Result<Trace> trace = read_trace(folder);
  if (trace || is_trace(folder)) {
    return trace;
  }
  return failure(trace.error().message + importable_files_text(folder));
}

Result<Trace> read_file(const Importer& importer, const std::filesystem::path& file, const std::string& name,
                        std::string* cut_off) {
  Result<Trace> trace = importer.read(file);
  if (trace && cut_off != nullptr) {
    *cut_off = cut_off_text(*trace, file, name);
  }
  return trace;
}

/// Reads what `spool` keeps under the name `shown`.
Result<Trace> read_spool(const Importer& importer, const Spool& spool, const std::string& shown,
                         std::string* cut_off) {
  if (importer.read == read_otf2) {
    return failure(
        fmt::format("{}: an OTF2 archive is several files; name its .otf2 file, not a pipe", shown));
  }
  const std::string kept = spool.file().string();
  Result<Trace> trace = read_file(importer, spool.file(), shown, cut_off);
  if (!trace) {
    return failure(replaced(trace.error().message, kept, shown));
  }
  Provenance& provenance = trace->provenance;
  provenance.description = replaced(std::move(provenance.description), kept, shown);
  return trace;
}

Result<Trace> import_pipe(const std::filesystem::path& path, std::string* cut_off) {
  constexpr std::int64_t furthest = std::int64_t{64} << 20;  // that any format is searched for in a text
  Result<TextSource> source = TextSource::open(path);
  const Result<std::string_view> peeked = source ? source->peek(k_head) : tl::unexpected(source.error());
  if (!peeked) {
    return tl::unexpected(peeked.error());
  }
  const std::string head(*peeked);
  if (sniff_calls_jsonl(path, head)) {  // read once and line by line: no need to keep it
    return read_calls_jsonl(std::move(*source));
  }
  if (head.empty()) {
    return tl::unexpected(unknown_format(source->name(), head));
  }
  Spool spool(path);
  const Importer* importer = importer_for(spool.file(), head);  // by the head alone, for the file is empty
  Result<bool> more = true;
  if (importer == nullptr && head.find('\0') == std::string::npos) {
    more = spool.take(*source, furthest);
    importer = more ? importer_for(spool.file(), head) : nullptr;
  }
  if (more && importer == nullptr) {
    return tl::unexpected(unknown_format(source->name(), head));
  }
  if (more && *more) {
    more = spool.take(*source, INT64_MAX);
  }
  return more ? read_spool(*importer, spool, source->name(), cut_off) : tl::unexpected(more.error());
}

}  // namespace

Result<Trace> import_any(const std::filesystem::path& path, std::string* cut_off) {
  if (cut_off != nullptr) {
    cut_off->clear();
  }
  std::error_code status;
  if (path == "-") {
    return import_pipe(path, cut_off);
  }
  if (std::filesystem::is_directory(path, status)) {
    return read_folder(path);
  }
  if (std::filesystem::exists(path, status) && !std::filesystem::is_regular_file(path, status)) {
    return import_pipe(path, cut_off);
  }
  const Result<std::string> head = read_head(path, k_head);
  if (!head) {
    return tl::unexpected(head.error());
  }
  const Importer* const importer = importer_for(path, *head);
  return importer == nullptr ? tl::unexpected(unknown_format(path.string(), *head))
                             : read_file(*importer, path, path.string(), cut_off);
}

}  // namespace commlens
