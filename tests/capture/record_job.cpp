#include "record_job.hpp"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <sys/wait.h>

#include "commlens/base/check.hpp"

namespace commlens::test {
namespace {

namespace fs = std::filesystem;

std::string binary() {
  const char* const path = std::getenv("COMMLENS_BINARY");
  return path == nullptr ? "build/release/commlens" : path;
}

std::string mpirun(const std::string& mpi) {
  return mpi == "openmpi" ? COMMLENS_MPIRUN_OPENMPI : COMMLENS_MPIRUN_MPICH;
}

std::string ranks_text(const std::vector<Rank>& ranks) {
  std::string text;
  for (const Rank rank : ranks) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", rank.value);
  }
  return text;
}

std::string line_of(const Trace& trace, const CommOp& op, Rank rank) {
  return fmt::format("{} {} {} {} {} {} {} {}", rank.value, trace.names.text(op.name), name_of(op.kind),
                     name_of(op.dtype), op.input.value, op.output.value,
                     ranks_text(trace.groups.members(op.group, rank)), op.root ? op.root->value : -1);
}

}  // namespace

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

bool has_mpi(const std::string& mpi) { return !mpirun(mpi).empty(); }

// MPICH polls, so more ranks than cores take long; Open MPI yields when it is told of them.
std::string launcher(const JobOptions& options) {
  return options.mpi == "openmpi" ? fmt::format("{} --oversubscribe -n {}", mpirun("openmpi"), options.ranks)
                                  : fmt::format("{} -n {}", mpirun("mpich"), options.ranks);
}

std::string recording(const JobOptions& options) {
  return fmt::format("{} record -o trace {} --", binary(), options.flags);
}

JobFolder::JobFolder() {
  std::string name = (fs::temp_directory_path() / "commlens-capture-XXXXXX").string();
  COMMLENS_CHECK(mkdtemp(name.data()) != nullptr, "the tests need a temporary folder");
  path_ = name;
}

JobFolder::~JobFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

// Open MPI refuses root without being told.
RecordedJob JobFolder::run(const std::string& command) const {
  const int status = std::system(
      fmt::format(
          "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; cd {} && ( {} ) >out 2>err "
          "</dev/null",
          path_.string(), command)
          .c_str());
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .out = content_of(path_ / "out"),
          .err = content_of(path_ / "err")};
}

RecordedJob JobFolder::record(const std::string& program, const JobOptions& options) const {
  const std::string record = recording(options);
  const std::string command = options.is_inside_launcher ? fmt::format("{} {}", launcher(options), record)
                                                         : fmt::format("{} {}", record, launcher(options));
  return run(fmt::format("{}{} {} {}", options.before, command, options.inside, program));
}

std::string python_with_mpi4py() {
  const JobFolder folder;
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    if (folder.run(fmt::format("{} -c 'import mpi4py'", python)).exit_code == 0) {
      return python;
    }
  }
  return {};
}

Calls calls_of(const Trace& trace) {
  Calls calls;
  for (const RankStream& stream : trace.streams) {
    for (const CommEvent& event : stream.events) {
      ++calls[line_of(trace, trace.op(event.op), stream.ranks.first)];
    }
  }
  return calls;
}

Calls expected_in(const fs::path& folder) {
  Calls calls;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("expected-")) {
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        ++calls[line];
      }
    }
  }
  return calls;
}

std::string differences(const Calls& expected, const Calls& recorded) {
  std::string text;
  const auto count = [](const Calls& calls, const std::string& line) {
    const auto found = calls.find(line);
    return found == calls.end() ? std::int64_t{0} : found->second;
  };
  Calls all = expected;
  all.insert(recorded.begin(), recorded.end());
  for (const auto& [line, ignored] : all) {
    if (count(expected, line) != count(recorded, line)) {
      text +=
          fmt::format("expected {} recorded {}: {}\n", count(expected, line), count(recorded, line), line);
    }
  }
  return text;
}

}  // namespace commlens::test
