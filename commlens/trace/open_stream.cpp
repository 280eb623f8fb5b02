#include "commlens/trace/open_stream.hpp"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace commlens {
namespace {

namespace fs = std::filesystem;

Result<std::optional<OpenStream>> open_written_stream(const fs::path& directory, const StreamEntry& entry,
                                                      const std::vector<OpId>& ops) {
  Result<StreamFile> file = StreamFile::open(directory / entry.file, entry);
  if (!file) {
    return tl::unexpected(file.error());
  }
  const StreamSurvey survey = file->survey(ops);
  return OpenStream{std::move(*file), survey, {}, {}};
}

/// Sets from which iteration on all ranks have all their calls, where rings have overwritten some.
void set_first_iterations(const fs::path& directory, Manifest& manifest) {
  std::optional<Iteration> last_cut;
  for (const StreamEntry& entry : manifest.streams) {
    if (entry.ring == 0) {
      continue;
    }
    const Result<StreamFile> file = StreamFile::open(directory / entry.file, entry);
    if (file) {
      last_cut = std::max(last_cut, file->cut_iteration());
    }
  }
  if (last_cut && *last_cut != k_unknown_iteration) {
    for (StreamEntry& entry : manifest.streams) {
      entry.first_iteration = *last_cut + 1;
    }
  }
}

}  // namespace

Result<Manifest> manifest_of(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return failure(fmt::format(
        "{}: {}", directory.string(),
        fs::exists(directory, error) ? "not a directory, so no commlens trace" : "no such directory"));
  }
  if (!fs::exists(directory / k_manifest_name, error)) {
    return failure(fmt::format("{}: no commlens trace (it has no {})", directory.string(), k_manifest_name));
  }
  return read_manifest(directory / k_manifest_name).map([&](Manifest manifest) {
    set_first_iterations(directory, manifest);
    return manifest;
  });
}

Result<std::optional<OpenStream>> open_stream(const fs::path& directory, std::size_t row, Manifest& manifest,
                                              RankClocks& clocks) {
  const StreamEntry& entry = manifest.streams[row];
  return (entry.tables.empty() ? open_written_stream(directory, entry, manifest.ops)
                               : open_recorded_stream(directory, entry, manifest.tables, clocks))
      .map([&](std::optional<OpenStream> stream) {
        if (stream && stream->file.overwritten() > 0) {
          manifest.tables.provenance.skip(std::string(k_skipped_overwritten), stream->file.overwritten());
        }
        return stream;
      });
}

}  // namespace commlens
