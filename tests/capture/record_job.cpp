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

// MPICH polls, so more ranks than cores are slow; Open MPI yields if it knows that it is oversubscribed.
std::string launcher(const JobOptions& options) {
  return options.mpi == "openmpi" ? fmt::format("{} --oversubscribe -n {}", mpirun("openmpi"), options.ranks)
                                  : fmt::format("{} -n {}", mpirun("mpich"), options.ranks);
}

std::string recording(const JobOptions& options) {
  return fmt::format("{} record -o trace {} --", binary(), options.flags);
}

// Open MPI refuses root unless these variables allow it.
RecordedJob JobDirectory::run(const std::string& command) const {
  const int status = std::system(
      fmt::format(
          "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; cd {} && ( {} ) >out 2>err "
          "</dev/null",
          path().string(), command)
          .c_str());
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .out = content_of(path() / "out"),
          .err = content_of(path() / "err")};
}

RecordedJob JobDirectory::record(const std::string& program, const JobOptions& options) const {
  const std::string record = recording(options);
  const std::string command = options.is_inside_launcher ? fmt::format("{} {}", launcher(options), record)
                                                         : fmt::format("{} {}", record, launcher(options));
  return run(fmt::format("{}{} {} {}", options.before, command, options.inside, program));
}

std::string python_with_mpi4py() {
  const JobDirectory directory;
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    if (directory.run(fmt::format("{} -c 'import mpi4py'", python)).exit_code == 0) {
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

Calls expected_in(const fs::path& directory) {
  Calls calls;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
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
