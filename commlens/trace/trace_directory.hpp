#pragma once
#include <filesystem>
#include <functional>

#include "commlens/base/result.hpp"

namespace commlens {

/// Fails when `directory` holds anything else than a trace, which a new trace must not replace. A directory
/// that is absent or empty passes. Throws SystemError when it cannot be read.
Result<void> check_trace_target(const std::filesystem::path& directory);

/// Puts a new trace directory, filled by `fill`, in the place of `directory`, so that a reader sees the old
/// trace or the new one. Throws SystemError when check_trace_target fails or the directory cannot be written.
void replace_trace_directory(const std::filesystem::path& directory,
                             const std::function<void(const std::filesystem::path&)>& fill);

/// Puts a new trace directory, filled by `fill`, at `directory` where nothing is or an empty directory, also
/// when several processes do so at once. False when something is there by now, which is left alone. Throws
/// SystemError when the directory cannot be written.
bool place_trace_directory(const std::filesystem::path& directory,
                           const std::function<void(const std::filesystem::path&)>& fill);

/// The same at the first of `directory`, `directory`-2, `directory`-3, … where that goes. Returns where.
/// Throws SystemError also when one of these holds anything else than a trace.
std::filesystem::path claim_trace_directory(const std::filesystem::path& directory,
                                            const std::function<void(const std::filesystem::path&)>& fill);

}  // namespace commlens
