#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace commlens {

/// The folders of a recording that goes to `folder`: that one and, when the command ran several jobs one
/// after another, `folder`-2, `folder`-3, … as far as they exist.
std::vector<std::filesystem::path> recorded_folders(const std::filesystem::path& folder);
/// The same without the first.
std::vector<std::filesystem::path> numbered_folders(const std::filesystem::path& folder);

/// One recording, concluded.
struct RecordedJob {
  std::filesystem::path folder;  // of its trace
  std::string iterations;        // how it is known which iteration a call is of, for people
  std::string cost;              // what recording cost the rank with the most calls, for people; a line
  std::string extent;            // "1,200 records of 4 ranks"
  std::chrono::nanoseconds concluding{};  // what finding iterations and totals took
};

/// Finishes one recording: finds its iterations where the program marks none, and writes the totals into its
/// manifest. `elapsed`: how long the command took. Throws SystemError.
RecordedJob conclude_recording(const std::filesystem::path& folder, std::chrono::nanoseconds elapsed);

}  // namespace commlens
