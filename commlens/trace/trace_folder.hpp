#pragma once
#include <filesystem>
#include <functional>

namespace commlens {

/// Puts a new trace folder, filled by `fill`, in the place of `folder`, so that a reader sees the old trace
/// or the new one. Throws SystemError when `folder` holds anything else than a trace or cannot be written.
void replace_trace_folder(const std::filesystem::path& folder,
                          const std::function<void(const std::filesystem::path&)>& fill);

}  // namespace commlens
