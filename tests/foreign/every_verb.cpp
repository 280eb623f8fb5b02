#include "tests/foreign/every_verb.hpp"

#include <exception>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/cli/command.hpp"
#include "commlens/formats/exporters/exporters.hpp"

namespace commlens {
namespace {

/// Warnings may come first; a refusal is one line.
std::string fault_of_messages(const std::string& messages, ExitCode code) {
  std::istringstream lines(messages);
  std::string line;
  int refusals = 0;
  while (std::getline(lines, line)) {
    if (!line.starts_with("commlens: ")) {
      return fmt::format("a message of more than one line: {}", messages);
    }
    refusals += line.starts_with("commlens: warning: ") ? 0 : 1;
  }
  const int expected = code == ExitCode::bad_input ? 1 : 0;
  return refusals == expected
             ? ""
             : fmt::format("exit code {} with {} refusals: {}", static_cast<int>(code), refusals, messages);
}

}  // namespace

EveryVerb::EveryVerb(std::filesystem::path scratch, std::filesystem::path other)
    : scratch_(std::move(scratch)), other_(std::move(other)) {}

VerbRun EveryVerb::run_verb(const std::vector<std::string>& arguments) const {
  std::filesystem::remove_all(scratch_);
  std::filesystem::create_directories(scratch_);
  VerbRun result{fmt::format("{}", fmt::join(arguments, " ")), ExitCode::system_failed, ""};
  std::ostringstream out;
  std::ostringstream err;
  Console console{out, err, {}, false};
  try {
    result.code = run(arguments, console);
    result.fault = fault_of_messages(err.str(), result.code);
  } catch (const std::exception& error) {  // as main does: exit code 3
    result.fault = error.what();
  }
  return result;
}

void EveryVerb::run_rest(const std::string& file, std::vector<VerbRun>& runs) const {
  const std::string place = (scratch_ / "out").string();
  runs.push_back(run_verb({"summary", file, "--format", "json"}));
  runs.push_back(run_verb({"report", file, "-o", place, "--data", (scratch_ / "figures").string()}));
  runs.push_back(run_verb({"compare", file, file}));
  if (runs.back().code == ExitCode::differs) {
    runs.back().fault = "the file differs from itself";
  }
  runs.push_back(run_verb({"compare", file, other_.string()}));
  runs.push_back(run_verb({"compare", other_.string(), file, "--format", "json"}));
  for (const Exporter& exporter : exporters()) {
    runs.push_back(run_verb({"export", file, "--to", std::string(exporter.name), "-o", place}));
  }
}

std::vector<VerbRun> EveryVerb::run_on(const std::filesystem::path& file) const {
  std::vector<VerbRun> runs = {run_verb({"summary", file.string()})};
  run_rest(file.string(), runs);
  return runs;
}

std::vector<VerbRun> EveryVerb::run_on_readable(const std::filesystem::path& file) const {
  std::vector<VerbRun> runs = {run_verb({"summary", file.string()})};
  if (runs.front().code == ExitCode::done) {
    run_rest(file.string(), runs);
  }
  return runs;
}

std::string faults_of(const std::vector<VerbRun>& runs) {
  std::string faults;
  for (const VerbRun& run : runs) {
    if (!run.fault.empty()) {
      faults += fmt::format("{}: {}\n", run.command, run.fault);
    }
  }
  return faults;
}

}  // namespace commlens
