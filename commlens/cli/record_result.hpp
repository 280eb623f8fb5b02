#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/cli/console.hpp"

namespace commlens {

/// The folders of a recording that goes to `folder`: that one and, when the command ran several jobs one
/// after another, `folder`-2, `folder`-3, … as far as they exist.
std::vector<std::filesystem::path> recorded_folders(const std::filesystem::path& folder);
/// The same without the first.
std::vector<std::filesystem::path> numbered_folders(const std::filesystem::path& folder);

/// Removes the trace that is in `folder`, if any, in one step as others see it. False, and nothing happens,
/// when some process records into it. Fails when the folder holds anything else than a trace. Throws
/// SystemError.
Result<bool> remove_trace_unless_used(const std::filesystem::path& folder);

/// Finishes one recording and prints, on `console.err` (standard output is the program's), what `commlens
/// summary` says of it and what recording cost. `elapsed`: how long the command took. Throws SystemError.
void conclude_recording(Console& console, const std::filesystem::path& folder,
                        std::chrono::nanoseconds elapsed);

}  // namespace commlens
