#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/base/modules.hpp"
#include "commlens/capture/environment.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/record_child.hpp"
#include "commlens/cli/record_program.hpp"
#include "commlens/cli/record_result.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/trace_folder.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

constexpr const char* k_record_examples = R"(Examples:
  commlens record -- mpirun -n 4 ./app
  commlens record -o run1 -- mpirun -n 4 python3 train.py
  mpirun -n 4 commlens record -- ./app
  srun -n 64 commlens record -o $SCRATCH/run1 -- ./app
The trace stands in the folder that -o names. Standard output stays the program's; what commlens says goes to
standard error.
Exit code: that of the command (128 + the signal that ended it), 2 bad input, 3 it could not be started.)";

struct RecordFlags {
  std::string folder = "commlens-trace";
  std::string mpi;
  std::vector<std::string> command;
};

/// Of this process, as its launcher numbers it; 0 when no launcher started it.
std::int64_t rank_of_process() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"}) {
    if (const char* const text = std::getenv(name); text != nullptr) {
      return std::strtoll(text, nullptr, 10);
    }
  }
  return 0;
}

Result<fs::path> capture_library(MpiLibrary mpi) {
  const std::string file = fmt::format("libcommlens-capture-mpi-{}.so", name_of(mpi));
  std::string places;
  for (const fs::path& folder : module_folders()) {
    std::error_code ignored;
    if (fs::exists(folder / file, ignored)) {
      return fs::absolute(folder / file);
    }
    places += (places.empty() ? "" : ", ") + folder.string();
  }
  return failure(
      fmt::format("cannot record {}: {} is missing in {}; build commlens where its headers are installed, or "
                  "name the folder "
                  "in COMMLENS_MODULE_PATH",
                  title_of(mpi), file, places));
}

Result<ChosenMpi> chosen_mpi(const RecordFlags& flags) {
  if (const std::optional<MpiLibrary> given = mpi_library_from(flags.mpi)) {
    return ChosenMpi{*given, "--mpi"};
  }
  const std::optional<ChosenMpi> found = mpi_of_command(flags.command);
  if (!found) {
    return failure(fmt::format("{}: no MPI seen in this command nor on this machine; name it with --mpi",
                               flags.command.front()));
  }
  return *found;
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

/// Open MPI's launcher hands variables to processes on other machines only when it is told to.
std::vector<std::string> with_exports(std::vector<std::string> command) {
  const std::optional<fs::path> program = executable_of(command.front());
  if (!program || launcher_of(*program) != MpiLibrary::openmpi) {
    return command;
  }
  std::vector<std::string> options;
  for (const char* name : {"LD_PRELOAD", capture::k_folder_variable, capture::k_command_variable}) {
    options.insert(options.end(), {"-x", name});
  }
  command.insert(command.begin() + 1, options.begin(), options.end());
  return command;
}

ChildProgram child_of(const RecordFlags& flags, const fs::path& library) {
  const char* const preloaded = std::getenv("LD_PRELOAD");
  const std::string others = preloaded == nullptr || *preloaded == '\0' ? "" : fmt::format(":{}", preloaded);
  return {.command = with_exports(flags.command),
          .variables = {
              fmt::format("LD_PRELOAD={}{}", library.string(), others),
              fmt::format("{}={}", capture::k_folder_variable, fs::absolute(flags.folder).string()),
              fmt::format("{}={}", capture::k_command_variable, joined(flags.command)),
          }};
}

/// Makes room for the trace: what is there must be a trace of before, which goes.
Result<void> clear_folder(const std::string& folder) {
  if (const Result<void> usable = check_trace_target(folder); !usable) {
    return failure("-o " + usable.error().message);
  }
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) {
    throw SystemError(fmt::format("cannot remove {}: {}", folder, error.message()));
  }
  return {};
}

/// Concludes the recordings that were not there before the command ran; how many there are.
std::size_t conclude(Console& console, const fs::path& folder, const std::vector<fs::path>& before,
                     std::chrono::nanoseconds elapsed) {
  std::size_t concluded = 0;
  for (const fs::path& recorded : recorded_folders(folder)) {
    if (std::find(before.begin(), before.end(), recorded) == before.end()) {
      conclude_recording(console, recorded, elapsed);
      ++concluded;
    }
  }
  return concluded;
}

Result<ExitCode> record(Console& console, const RecordFlags& flags) {
  const bool is_first = rank_of_process() == 0;
  if (!executable_of(flags.command.front())) {
    return failure(
        fmt::format("{}: no such program; write the command as in a shell, after --", flags.command.front()));
  }
  const Result<ChosenMpi> mpi = chosen_mpi(flags);
  if (!mpi) {
    return tl::unexpected(mpi.error());
  }
  const Result<fs::path> library = capture_library(mpi->library);
  if (!library) {
    return tl::unexpected(library.error());
  }
  if (is_first) {
    if (const Result<void> cleared = clear_folder(flags.folder); !cleared) {
      return tl::unexpected(cleared.error());
    }
    if (!mpi->is_sure) {
      warn(console, fmt::format("taking the MPI for {} ({}); say otherwise with --mpi",
                                title_of(mpi->library), mpi->reason));
    }
  }
  const fs::path folder = fs::absolute(flags.folder);
  const std::vector<fs::path> before = numbered_folders(folder);
  const auto start = std::chrono::steady_clock::now();
  const auto code = static_cast<ExitCode>(run_child(child_of(flags, *library)));
  const auto elapsed = std::chrono::steady_clock::now() - start;
  if (!is_first) {
    return code;
  }
  if (conclude(console, folder, before, elapsed) == 0) {
    warn(console, fmt::format("nothing was recorded: no process of the command started {} ({}); "
                              "see commlens doctor",
                              title_of(mpi->library), mpi->reason));
  }
  return code;
}

}  // namespace

Action declare_record(CLI::App& verb) {
  const auto flags = std::make_shared<RecordFlags>();
  verb.footer(k_record_examples);
  verb.add_option("-o,--output", flags->folder, "Folder of the trace")
      ->capture_default_str()
      ->type_name("DIR");
  verb.add_option("--mpi", flags->mpi, "The program's MPI, where it cannot be seen: openmpi or mpich")
      ->check(CLI::IsMember({"openmpi", "mpich"}));
  verb.add_option("COMMAND", flags->command, "What to run, after --")->required();
  return [flags](Console& console) { return record(console, *flags); };
}

}  // namespace commlens
