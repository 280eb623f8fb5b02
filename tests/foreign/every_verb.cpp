#include "tests/foreign/every_verb.hpp"

#include <exception>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/cli/command.hpp"
#include "commlens/compare/compare.hpp"
#include "commlens/formats/formats.hpp"
#include "commlens/formats/import_any.hpp"
#include "commlens/formats/write_export.hpp"

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

void EveryVerb::empty_scratch() const {
  std::filesystem::remove_all(scratch_);
  std::filesystem::create_directories(scratch_);
}

VerbRun EveryVerb::run_verb(const std::vector<std::string>& arguments) const {
  empty_scratch();
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

VerbRun EveryVerb::run_compare_with_itself(const std::string& file) const {
  VerbRun result = run_verb({"compare", file, file});
  if (result.code == ExitCode::differs) {
    result.fault = "the file differs from itself";
  }
  return result;
}

std::vector<VerbRun> EveryVerb::run_on(const std::filesystem::path& path) const {
  const std::string file = path.string();
  const std::string place = (scratch_ / "out").string();
  std::vector<VerbRun> runs = {
      run_verb({"summary", file}),
      run_verb({"summary", file, "--format", "json"}),
      run_verb({"report", file, "-o", place, "--data", (scratch_ / "figures").string()}),
      run_compare_with_itself(file),
      run_verb({"compare", file, other_.string()}),
      run_verb({"compare", other_.string(), file, "--format", "json"})};
  for (const formats::Exporter& exporter : formats::exporters()) {
    runs.push_back(run_verb({"export", file, "--to", std::string(exporter.name), "-o", place}));
  }
  return runs;
}

void EveryVerb::run_on_trace(const std::filesystem::path& file, std::vector<VerbRun>& runs) const {
  const Result<Trace> trace = formats::import_any(file);
  if (!trace) {
    runs.push_back({"import " + file.string(), ExitCode::bad_input, trace.error().message});
    return;
  }
  const Result<Comparison> itself = compare(*trace, *trace, {});
  runs.push_back({"compare with itself " + file.string(), ExitCode::done,
                  itself && !itself->equal() ? "the file differs from itself" : ""});
  for (const formats::Exporter& exporter : formats::exporters()) {
    empty_scratch();
    const Result<void> written = formats::write_export(exporter, *trace, {}, (scratch_ / "out").string());
    const std::string error = written ? "" : written.error().message;
    runs.push_back(
        {fmt::format("export {} --to {}", file.string(), exporter.name),
         written ? ExitCode::done : ExitCode::bad_input,
         error.find('\n') == std::string::npos ? "" : "a message of more than one line: " + error});
  }
}

std::vector<VerbRun> EveryVerb::run_fast_on(const std::filesystem::path& path) const {
  const std::string file = path.string();
  std::vector<VerbRun> runs = {run_verb({"summary", file})};
  if (runs.front().code == ExitCode::done) {
    runs.push_back(run_verb({"report", file, "-o", "-"}));
    runs.push_back(run_verb({"compare", file, other_.string(), "--format", "json"}));
    run_on_trace(path, runs);
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
