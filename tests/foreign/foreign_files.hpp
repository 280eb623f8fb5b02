#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace commlens {

/// Traces and logs of other tools, which are third-party data and thus outside the repository:
/// $COMMLENS_TEST_DATA/golden/foreign. Empty where the variable is not set.
std::filesystem::path foreign_directory();

/// The files in it, sorted; without licences and answers (ground_truth.json).
std::vector<std::filesystem::path> foreign_files();

/// A real file, reduced so that it can be read many thousand times: its name, and its text, unpacked.
struct ForeignSample {
  std::string name;
  std::string text;
};

/// JSON of more than 16 KiB keeps its members and, of the events or nodes, those about communication and what
/// launches it, then others until it is full; other files keep their beginning.
ForeignSample foreign_sample(const std::filesystem::path& file);

/// Twenty real files, of every format there is one of.
std::vector<std::filesystem::path> sampled_files();

/// Sets the directory in which modules (OTF2) are looked for to that of the program.
void find_modules_beside_program();

}  // namespace commlens
