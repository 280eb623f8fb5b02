#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "commlens/cli/console.hpp"

namespace commlens {

/// The outcome of a verb that was run in this process, so that the sanitizers check it.
struct VerbRun {
  std::string command;  // "report FILE -o …"
  ExitCode code = ExitCode::done;
  std::string fault;  // empty: done, "differs", or the file was refused in one line
};

/// Runs every verb that reads a trace: report (all figures), summary (table and JSON), compare with itself
/// and with `other`, and each exporter. What they write goes below `scratch`, which is emptied before each.
class EveryVerb {
 public:
  EveryVerb(std::filesystem::path scratch, std::filesystem::path other);

  std::vector<VerbRun> run_on(const std::filesystem::path& file) const;
  /// The same in a third of the time, for many files: the exporters and the comparison with itself share one
  /// import, and a file that summary refuses is not passed to the others, which would refuse it too.
  std::vector<VerbRun> run_fast_on(const std::filesystem::path& file) const;

 private:
  VerbRun run_verb(const std::vector<std::string>& arguments) const;
  VerbRun run_compare_with_itself(const std::string& file) const;
  void run_on_trace(const std::filesystem::path& file, std::vector<VerbRun>& runs) const;
  void empty_scratch() const;

  std::filesystem::path scratch_;
  std::filesystem::path other_;
};

/// "report FILE -o …: what was wrong", a line each; empty when nothing was.
std::string faults_of(const std::vector<VerbRun>& runs);

}  // namespace commlens
