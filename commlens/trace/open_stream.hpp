#pragma once
#include <filesystem>
#include <optional>

#include "commlens/base/result.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/rank_tables.hpp"
#include "commlens/trace/stream_file.hpp"

namespace commlens {

/// The manifest of a native trace directory. Fails when `directory` is none.
Result<Manifest> manifest_of(const std::filesystem::path& directory);

/// Opens the stream in row `row` of the manifest, recorded or written, and checks its records; what a
/// recorded rank's tables say goes into those of the manifest. Nothing for a rank that never opened its
/// files.
Result<std::optional<OpenStream>> open_stream(const std::filesystem::path& directory, std::size_t row,
                                              Manifest& manifest, RankClocks& clocks);

}  // namespace commlens
