#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace commlens {

/// The existing directories of a recording into `directory`: that one and, if the command ran several jobs in
/// sequence, `directory`-2, `directory`-3, …
std::vector<std::filesystem::path> recorded_directories(const std::filesystem::path& directory);
/// The same without the first.
std::vector<std::filesystem::path> numbered_directories(const std::filesystem::path& directory);

/// One finished recording.
struct RecordedJob {
  std::filesystem::path directory;  // of its trace
  std::string iterations;           // how iterations are known, for people
  std::string cost;                 // recording cost of the rank with the most calls, for people; a line
  std::string extent;               // "1,200 records of 4 ranks"
  std::chrono::nanoseconds concluding{};  // time to find iterations and totals
};

/// Finishes one recording: finds its iterations where the program marks none, and writes the totals into its
/// manifest. `elapsed`: how long the command took. Throws SystemError.
RecordedJob conclude_recording(const std::filesystem::path& directory, std::chrono::nanoseconds elapsed);

}  // namespace commlens
