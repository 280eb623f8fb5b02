#include "commlens/app/record.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "commlens/app/directory_watch.hpp"
#include "commlens/app/earlier_trace.hpp"
#include "commlens/app/launcher.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/app/record_child.hpp"
#include "commlens/app/record_preload.hpp"
#include "commlens/app/record_program.hpp"
#include "commlens/base/modules.hpp"
#include "commlens/capture/environment.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view k_light_profiler = "profiler=light";

/// The library that is loaded into the processes of the command.
struct Capture {
  fs::path library;
  std::string reason;                  // the first call that it records, for people
  std::vector<std::string> variables;  // set in addition to the common ones
};

Result<fs::path> capture_library(const std::string& file, std::string_view what) {
  if (const std::optional<fs::path> found = module_file(file)) {
    return preloadable(fs::absolute(*found));
  }
  return failure(
      fmt::format("cannot record {}: {} is missing in {}; build commlens where its headers are installed, or "
                  "name the directory in COMMLENS_MODULE_PATH",
                  what, file, searched_for_modules()));
}

Result<ChosenMpi> chosen_mpi(const RecordRequest& request) {
  if (const std::optional<MpiLibrary> given = mpi_library_from(request.mpi)) {
    return ChosenMpi{*given, "--mpi"};
  }
  const std::optional<ChosenMpi> found = mpi_of_command(request.command);
  if (!found) {
    return failure(fmt::format("{}: no MPI seen in this command nor on this machine; name it with --mpi",
                               request.command.front()));
  }
  return *found;
}

Result<Capture> mpi_capture(const RecordRequest& request, bool is_first) {
  const Result<ChosenMpi> mpi = chosen_mpi(request);
  if (!mpi) {
    return tl::unexpected(mpi.error());
  }
  const std::string_view title = title_of(mpi->library);
  const Result<fs::path> library =
      capture_library(fmt::format("libcommlens-capture-mpi-{}.so", name_of(mpi->library)), title);
  if (!library) {
    return tl::unexpected(library.error());
  }
  if (is_first && !mpi->is_sure) {
    request.events.warn(
        fmt::format("taking the MPI for {} ({}); say otherwise with --mpi", title, mpi->reason));
  }
  return Capture{*library, fmt::format("called MPI_Init of {} ({})", title, mpi->reason), {}};
}

/// The profiler plug-in is loaded by NCCL; it is preloaded too, so that a program finds the functions of
/// commlens.h.
Result<Capture> nccl_capture(const RecordRequest& request) {
  const bool is_plugin = request.nccl == "profiler" || request.nccl == k_light_profiler;
  const Result<fs::path> library =
      capture_library(is_plugin ? "libcommlens-nccl-profiler.so" : "libcommlens-nccl.so", "NCCL");
  if (!library) {
    return tl::unexpected(library.error());
  }
  if (is_plugin && request.call_sites) {
    return failure(
        "--call-sites: NCCL does not tell its profiler plug-ins where a call was made; record with --nccl "
        "shim");
  }
  if (!is_plugin) {
    return Capture{*library, "made a communicator through a shared NCCL or RCCL", {}};
  }
  constexpr std::size_t longest = 254;  // NCCL's src/plugin/plugin_open.cc, MAX_STR_LEN
  if (library->string().size() > longest) {
    return failure(
        fmt::format("{}: NCCL takes plug-ins whose path has at most {} characters; move commlens, or "
                    "record with --nccl shim",
                    library->string(), longest));
  }
  return Capture{*library,
                 "made a communicator with NCCL 2.23 or later (--nccl shim records older ones)",
                 {fmt::format("NCCL_PROFILER_PLUGIN={}", library->string())}};
}

/// Open MPI's launcher passes variables to processes on other machines only with -x.
std::vector<std::string> with_exports(std::vector<std::string> command,
                                      const std::vector<std::string>& variables) {
  const std::optional<fs::path> program = executable_of(command.front());
  if (!program || launcher_of(*program) != MpiLibrary::openmpi) {
    return command;
  }
  std::vector<std::string> options;
  for (const std::string& variable : variables) {
    options.insert(options.end(), {"-x", variable.substr(0, variable.find('='))});
  }
  command.insert(command.begin() + 1, options.begin(), options.end());
  return command;
}

ChildProgram child_of(const RecordRequest& request, const Capture& chosen, const fs::path& directory) {
  std::vector<std::string> variables = preload_variables(chosen.library);
  variables.push_back(fmt::format("{}={}", capture::k_directory_variable, directory.string()));
  variables.push_back(fmt::format("{}={}", capture::k_command_variable, as_typed(request.command)));
  if (request.call_sites) {
    variables.push_back(fmt::format("{}=1", capture::k_sites_variable));
  }
  if (request.ring_records > 0 || std::getenv(capture::k_ring_variable) != nullptr) {
    variables.push_back(fmt::format("{}={}", capture::k_ring_variable, request.ring_records));
  }
  const bool is_light = request.nccl == k_light_profiler;
  if (is_light || std::getenv(capture::k_profiler_variable) != nullptr) {
    variables.push_back(fmt::format("{}={}", capture::k_profiler_variable, is_light ? "light" : ""));
  }
  variables.insert(variables.end(), chosen.variables.begin(), chosen.variables.end());
  return {.command = with_exports(request.command, variables), .variables = variables};
}

/// Prepares the directory of the trace: an earlier trace there is moved aside, anything else is refused here
/// rather than in every process of the command. A directory into which NCCL ranks record now is left alone:
/// they may belong to this job, whose launcher started them earlier.
Result<EarlierTrace> make_room(const std::string& directory, bool is_nccl) {
  if (const Result<void> usable = check_directory_place("-o", directory); !usable) {
    return tl::unexpected(usable.error());
  }
  Result<EarlierTrace> earlier = EarlierTrace::put_aside(directory);
  if (!earlier) {
    return failure("-o " + earlier.error().message);
  }
  if (earlier->is_used()) {
    return is_nccl ? std::move(earlier)
                   : failure(fmt::format(
                         "-o {}: another job is being recorded there; choose another directory", directory));
  }
  std::error_code error;
  fs::create_directories(earlier->directory(), error);
  if (error) {
    throw SystemError(fmt::format("cannot make the directory {}: {}", directory, error.message()));
  }
  fs::remove(earlier->directory(), error);
  return earlier;
}

/// How the command ended, and which traces existed before it.
struct Ended {
  std::vector<fs::path> before;  // numbered traces next to this one
  std::chrono::nanoseconds elapsed{};
  bool has_lost_directory = false;  // the directory was deleted or moved
};

/// A launcher may end before the ranks that it kills. The wait for ranks that live on for other reasons is
/// short.
void await_killed_ranks(const fs::path& directory) {
  constexpr std::chrono::milliseconds between(10);
  constexpr int most_looks = 200;
  const auto is_filled = [](const fs::path& recorded) { return is_being_recorded(recorded); };
  for (int look = 0; look < most_looks; ++look) {
    const std::vector<fs::path> recorded = recorded_directories(directory);
    if (std::none_of(recorded.begin(), recorded.end(), is_filled)) {
      return;
    }
    std::this_thread::sleep_for(between);
  }
}

/// Finishes the recordings made by the command. Restores the earlier trace if there are none.
std::vector<RecordedJob> conclude(const RecordRequest& request, EarlierTrace& earlier, const Ended& ended,
                                  const Capture& chosen) {
  const fs::path& directory = earlier.directory();
  const bool has_started = is_trace(directory);
  const bool is_earlier = earlier.settle();
  std::vector<RecordedJob> jobs;
  for (const fs::path& recorded : recorded_directories(directory)) {
    const bool is_new = std::find(ended.before.begin(), ended.before.end(), recorded) == ended.before.end();
    if (is_new && !(is_earlier && recorded == directory)) {
      jobs.push_back(conclude_recording(recorded, ended.elapsed));
    }
  }
  if (!jobs.empty()) {
    return jobs;
  }
  const std::string still = is_earlier ? fmt::format("; {} {} the earlier trace", directory.string(),
                                                     ended.has_lost_directory ? "holds" : "still holds")
                                       : "";
  if (ended.has_lost_directory) {
    request.events.warn(
        fmt::format("{} was deleted or moved while the command ran, and what was recorded with it{}",
                    directory.string(), still));
  } else {
    request.events.warn(fmt::format("nothing was recorded: {}{}{}",
                                    has_started ? "the command ended before its first call"
                                                : fmt::format("no process of the command {}", chosen.reason),
                                    still, has_started ? "" : "; see commlens doctor"));
  }
  return jobs;
}

}  // namespace

Result<RecordResult> record(const RecordRequest& request) {
  const bool is_first = rank_of_process() == 0;
  if (request.command.empty() || !executable_of(request.command.front())) {
    return failure(fmt::format("{}: no such program; write the command as in a shell, after --",
                               request.command.empty() ? "" : request.command.front()));
  }
  const Result<Capture> chosen =
      request.nccl.empty() ? mpi_capture(request, is_first) : nccl_capture(request);
  if (!chosen) {
    return tl::unexpected(chosen.error());
  }
  // MPI_Init makes the other ranks wait for the first one. NCCL ranks may record before it has started, so
  // each prepares the directory itself.
  if (!is_first && request.nccl.empty()) {
    return RecordResult{run_child(child_of(request, *chosen, fs::absolute(request.directory))), {}};
  }
  Result<EarlierTrace> earlier = make_room(request.directory, !request.nccl.empty());
  if (!earlier) {
    return tl::unexpected(earlier.error());
  }
  Ended ended{.before = numbered_directories(earlier->directory())};
  DirectoryWatch watch(earlier->directory());
  const auto start = std::chrono::steady_clock::now();
  RecordResult result{run_child(child_of(request, *chosen, earlier->directory())), {}};
  ended.elapsed = std::chrono::steady_clock::now() - start;
  if (is_first) {
    if (result.exit_code != 0) {
      await_killed_ranks(earlier->directory());
    }
    ended.has_lost_directory = !is_trace(earlier->directory()) && watch.has_seen_it_go();
    result.jobs = conclude(request, *earlier, ended, *chosen);
  }
  return result;
}

}  // namespace commlens
