#include "commlens/app/reproduce/launched.hpp"

#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/launcher.hpp"
#include "commlens/app/record_child.hpp"
#include "commlens/app/record_program.hpp"
#include "commlens/base/modules.hpp"
#include "commlens/base/text.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens::study {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds k_longest_training{60};

/// The program that this library belongs to: this process, or the one beside the library or its modules.
std::optional<fs::path> commlens_program() {
  std::error_code ignored;
  const fs::path own = fs::read_symlink("/proc/self/exe", ignored);
  if (own.filename() == "commlens") {
    return own;
  }
  for (const fs::path& directory : module_directories()) {
    if (const std::optional<fs::path> program = executable_of((directory / "commlens").string())) {
      return program;
    }
  }
  return executable_of("commlens");
}

/// What a job of processes needs of this machine: the launcher and the program.
struct LaunchTools {
  fs::path launcher;
  fs::path program;
};

Result<LaunchTools> launch_tools() {
  if (number_from_environment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"})) {
    return failure("this process belongs to an MPI job, and starts none of its own");
  }
  const std::optional<fs::path> launcher = launcher_in_path(MpiLibrary::openmpi);
  if (!launcher) {
    return failure("no mpirun of Open MPI is in PATH");
  }
  if (!module_file("libcommlens-mpi-openmpi.so")) {
    return failure("this build has no module for Open MPI (libcommlens-mpi-openmpi.so)");
  }
  const std::optional<fs::path> program = commlens_program();
  if (!program) {
    return failure("the program commlens is not in PATH");
  }
  return LaunchTools{*launcher, *program};
}

/// The last line of a file that says something.
std::string last_line_of(const std::string& file) {
  std::ifstream in(file);
  std::string last;
  for (std::string line; std::getline(in, line);) {
    last = line.find_first_not_of(" -\t") == std::string::npos ? last : line;
  }
  return last;
}

/// The number that follows `before` in a line; std::nullopt: none does.
std::optional<std::int64_t> number_behind(const std::string& line, const std::string& before) {
  const std::size_t found = line.find(before);
  const std::size_t at = found == std::string::npos ? line.size() : found + before.size();
  std::size_t end = at;
  while (end < line.size() && line[end] >= '0' && line[end] <= '9') {
    ++end;
  }
  return parse_integer(line.substr(at, end - at))
      .map([](std::int64_t value) { return std::optional(value); })
      .value_or(std::nullopt);
}

}  // namespace

RankPairs connections_made(std::istream& output) {
  // "[1,0]<stdout>:iteration     loss …", "[1,1]<stderr>:[host:27028] btl: tcp: attempting to connect() to
  // [[1393,1],2] address …".
  RankPairs pairs;
  bool is_training = false;
  for (std::string line; std::getline(output, line);) {
    is_training = is_training || line.find("<stdout>:iteration ") != std::string::npos;
    const std::size_t attempt = line.find("attempting to connect() to [[");
    if (!is_training || attempt == std::string::npos) {
      continue;
    }
    const std::optional<std::int64_t> from = number_behind(line, "[1,");
    const std::optional<std::int64_t> to = number_behind(line.substr(attempt), ",1],");
    if (from && to) {
      pairs.emplace_back(Rank{*from}, Rank{*to});
    }
  }
  return pairs;
}

std::vector<LaunchedTraining> launched_trainings() {
  // Ranks yield while they wait, as there may be more of them than cores.
  const std::vector<std::string> shared = {"--oversubscribe", "--bind-to", "none"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), shared.begin(), shared.end());
    return more;
  };
  return {{"stages-shared-memory", "Open MPI, shared memory",
           with({"--mca", "pml", "ob1", "--mca", "btl", "self,vader"})},
          {"stages-tcp", "Open MPI, TCP",
           with({"--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo",
                 "--mca", "btl_base_verbose", "40", "--tag-output"})}};
}

std::vector<std::string> words_of(const LaunchedTraining& training) {
  std::vector<std::string> words = {"-n", "4"};
  words.insert(words.end(), training.options.begin(), training.options.end());
  for (const char* const word : {"commlens", "train",           "19M", "--dp",        "1",    "--pp",
                                 "4",        "--layers",        "4",   "--hidden",    "64",   "--heads",
                                 "2",        "--seq",           "64",  "--vocab",     "512",  "--micro-batch",
                                 "1",        "--micro-batches", "4",   "--dtype",     "fp32", "--iterations",
                                 "6",        "--threads",       "1",   "--transport", "mpi"}) {
    words.emplace_back(word);
  }
  return words;
}

std::string command_of(const LaunchedTraining& training) {
  return fmt::format("mpirun {}", fmt::join(words_of(training), " "));
}

Result<RecordedStages> launched(const LaunchedTraining& training, const std::string& where,
                                const std::function<bool()>& stop_requested) {
  const std::string output = where + ".log";
  std::error_code ignored;
  return launch_tools()
      .and_then([&](const LaunchTools& tools) -> Result<void> {
        // Open MPI refuses root unless it is told twice; the job is this program's own, on this machine.
        ChildProgram job{{tools.launcher.string()},
                         {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}};
        for (const std::string& word : words_of(training)) {
          job.command.push_back(word == "commlens" ? tools.program.string() : word);
        }
        job.command.insert(job.command.end(), {"-o", where});
        const std::optional<int> code = run_watched(
            job, {.output = output, .stop_requested = stop_requested, .limit = k_longest_training});
        if (!code) {
          return failure(stop_requested && stop_requested()
                             ? std::string("stopped")
                             : fmt::format("it took longer than {} s", k_longest_training.count()));
        }
        if (*code != 0) {
          return failure(fmt::format("mpirun ended with {}: {}", *code, last_line_of(output)));
        }
        return {};
      })
      .and_then([&] { return read_trace(where); })
      .map([&](Trace&& trace) {
        std::ifstream in(output);
        RecordedStages stages{training.name, training.setting, command_of(training), std::move(trace),
                              connections_made(in)};
        fs::remove(output, ignored);
        return stages;
      })
      .map_error([&](Error&& error) {
        // Half a recording, or that of an earlier run, is not what the page has.
        fs::remove(output, ignored);
        fs::remove_all(where, ignored);
        return std::move(error);
      });
}

}  // namespace commlens::study
