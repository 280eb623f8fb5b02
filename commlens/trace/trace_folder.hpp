#pragma once
#include <filesystem>
#include <functional>

#include "commlens/base/result.hpp"

namespace commlens {

/// Fails when `folder` holds anything else than a trace, which a new trace must not replace. A folder that is
/// absent or empty passes. Throws SystemError when it cannot be read.
Result<void> check_trace_target(const std::filesystem::path& folder);

/// Puts a new trace folder, filled by `fill`, in the place of `folder`, so that a reader sees the old trace
/// or the new one. Throws SystemError when check_trace_target fails or the folder cannot be written.
void replace_trace_folder(const std::filesystem::path& folder,
                          const std::function<void(const std::filesystem::path&)>& fill);

/// Puts a new trace folder, filled by `fill`, at `folder` where nothing is or an empty folder, also when
/// several processes do so at once. False when something is there by now, which is left alone. Throws
/// SystemError when the folder cannot be written.
bool place_trace_folder(const std::filesystem::path& folder,
                        const std::function<void(const std::filesystem::path&)>& fill);

/// The same at the first of `folder`, `folder`-2, `folder`-3, … where that goes. Returns where. Throws
/// SystemError also when one of these holds anything else than a trace.
std::filesystem::path claim_trace_folder(const std::filesystem::path& folder,
                                         const std::function<void(const std::filesystem::path&)>& fill);

}  // namespace commlens
