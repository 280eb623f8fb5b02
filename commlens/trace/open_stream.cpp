#include "commlens/trace/open_stream.hpp"

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
  return read_manifest(directory / k_manifest_name);
}

Result<std::optional<OpenStream>> open_stream(const fs::path& directory, std::size_t row, Manifest& manifest,
                                              RankClocks& clocks) {
  const StreamEntry& entry = manifest.streams[row];
  return entry.tables.empty() ? open_written_stream(directory, entry, manifest.ops)
                              : open_recorded_stream(directory, entry, manifest.tables, clocks);
}

}  // namespace commlens
