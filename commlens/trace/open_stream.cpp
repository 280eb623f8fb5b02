#include "commlens/trace/open_stream.hpp"

#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace commlens {
namespace {

namespace fs = std::filesystem;

Result<std::optional<OpenStream>> open_written_stream(const fs::path& folder, const StreamEntry& entry,
                                                      const std::vector<OpId>& ops) {
  Result<StreamFile> file = StreamFile::open(folder / entry.file, entry);
  if (!file) {
    return tl::unexpected(file.error());
  }
  const StreamSurvey survey = file->survey(ops);
  return OpenStream{std::move(*file), survey, {}, {}};
}

}  // namespace

Result<Manifest> manifest_of(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return failure(
        fmt::format("{}: {}", folder.string(),
                    fs::exists(folder, error) ? "not a folder, so no commlens trace" : "no such folder"));
  }
  if (!fs::exists(folder / k_manifest_name, error)) {
    return failure(fmt::format("{}: no commlens trace (it has no {})", folder.string(), k_manifest_name));
  }
  return read_manifest(folder / k_manifest_name);
}

Result<std::optional<OpenStream>> open_stream(const fs::path& folder, std::size_t row, Manifest& manifest,
                                              RankClocks& clocks) {
  const StreamEntry& entry = manifest.streams[row];
  return entry.tables.empty() ? open_written_stream(folder, entry, manifest.ops)
                              : open_recorded_stream(folder, entry, manifest.tables, clocks);
}

}  // namespace commlens
