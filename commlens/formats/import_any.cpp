#include "commlens/formats/import_any.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/formats/calls_jsonl/import.hpp"
#include "commlens/formats/formats.hpp"
#include "commlens/formats/io/cut_off.hpp"
#include "commlens/formats/io/line_reader.hpp"
#include "commlens/formats/io/spool.hpp"
#include "commlens/formats/known_formats.hpp"
#include "commlens/formats/otf2/import.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens::formats {

namespace {

constexpr std::size_t k_head = std::size_t{64} << 10;

const Importer* importer_for(const std::filesystem::path& path, std::string_view head) {
  const std::span<const Importer> all = importers();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Importer& each) { return each.sniff(path, head); });
  return found == all.end() ? nullptr : &*found;
}

/// `name` is the path as messages show it.
Error unknown_format(const std::string& name, std::string_view head) {
  if (head.empty()) {
    return {fmt::format("{}: the file is empty; expected a trace directory or one of: {}", name,
                        importer_names())};
  }
  const std::string known = unreadable_format(name, head);
  return {known.empty() ? fmt::format("{}: no format we know; expected a trace directory or one of: {}", name,
                                      importer_names())
                        : fmt::format("{}: {}", name, known)};
}

Result<Trace> read_directory(const std::filesystem::path& directory) {
  Result<Trace> trace = read_trace(directory);
  if (trace || is_trace(directory)) {
    return trace;
  }
  return failure(trace.error().message + importable_files_text(directory));
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
  if (importer.read == otf2::read) {
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
  if (calls_jsonl::sniff(path, head)) {  // read once and line by line: no need to keep it
    return calls_jsonl::read(std::move(*source));
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
    return read_directory(path);
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

}  // namespace commlens::formats
