#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "commlens/cli/console.hpp"

namespace commlens {

/// The folders of a recording that goes to `folder`: that one and, when the command ran several jobs one
/// after another, `folder`-2, `folder`-3, … as far as they exist.
std::vector<std::filesystem::path> recorded_folders(const std::filesystem::path& folder);
/// The same without the first.
std::vector<std::filesystem::path> numbered_folders(const std::filesystem::path& folder);

/// What to say of a recording.
struct RecordingEnd {
  std::chrono::nanoseconds elapsed{};  // how long the command took
  bool has_summary = true;             // as `commlens summary` has it; else a line
};

/// Finishes one recording and prints, on `console.err` (standard output is the program's), what it holds, how
/// its iterations are known and what recording cost. Throws SystemError.
void conclude_recording(Console& console, const std::filesystem::path& folder, const RecordingEnd& end);

}  // namespace commlens
