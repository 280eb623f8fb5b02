// From MPI_Init to MPI_Finalize: where the recording goes, who takes part, what is reported at the end.
#include "commlens/capture/mpi_lifetime.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include "commlens/capture/environment.hpp"
#include "commlens/capture/mpi_clocks.hpp"
#include "commlens/capture/mpi_entry.hpp"
#include "commlens/capture/mpi_session.hpp"

namespace commlens::capture {
namespace {

namespace fs = std::filesystem;

void say(const std::string& text) {
  const std::string line = "commlens: " + text + "\n";
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, line.data(), line.size());
}

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text = {};
  int length = 0;
  COMMLENS_REAL(PMPI_Get_library_version)(text.data(), &length);
  std::replace(text.begin(), text.end(), '\t', ' ');
  const std::string_view version(text.data());
  return std::string(version.substr(0, version.find_first_of(",\n")));
}

using DirectoryName = std::array<char, 4096>;

/// Rank 0 makes the directory; all ranks learn its name, which is empty when there is none.
DirectoryName made_directory(const char* asked, int ranks) {
  DirectoryName name = {};
  if (kept().rank == 0) {
    try {
      const char* const command = std::getenv(k_command_variable);
      const fs::path directory = claim_recording(
          asked, {.producer = "commlens " COMMLENS_VERSION,
                  .description = fmt::format("{}{}{}", command == nullptr ? "" : command,
                                             command == nullptr ? "" : " · ", library_version()),
                  .framework = "mpi",
                  .ranks = ranks,
                  .ring_records = asked_ring()});
      if (directory.string().size() < name.size()) {
        std::strncpy(name.data(), directory.c_str(), name.size() - 1);
      }
    } catch (const std::exception& error) {
      kept().trouble = error.what();
    }
  }
  COMMLENS_REAL(PMPI_Bcast)(name.data(), static_cast<int>(name.size()), handles().byte, 0, kept().world);
  return name;
}

/// Null when this rank's files cannot be made.
std::unique_ptr<Recorder> opened_recorder(const DirectoryName& directory) {
  if (directory.front() == '\0') {
    return nullptr;
  }
  try {
    fs::create_directories(directory.data());  // a directory of this machine where they share no file system
    return std::make_unique<Recorder>(directory.data(), Rank{kept().rank},
                                      RecorderOptions{.ring_records = asked_ring()});
  } catch (const std::exception& error) {
    kept().trouble = error.what();
    return nullptr;
  }
}

std::int64_t sum_on_first_rank(std::int64_t value) {
  MPI_Status status;
  int size = 0;
  COMMLENS_REAL(PMPI_Comm_size)(kept().world, &size);
  std::int64_t sum = value;
  if (kept().rank != 0) {
    COMMLENS_REAL(PMPI_Send)(&value, sizeof value, handles().byte, 0, 1, kept().world);
    return 0;
  }
  for (int rank = 1; rank < size; ++rank) {
    std::int64_t theirs = 0;
    COMMLENS_REAL(PMPI_Recv)(&theirs, sizeof theirs, handles().byte, rank, 1, kept().world, &status);
    sum += theirs;
  }
  return sum;
}

}  // namespace

Kept& kept() {
  static Kept& only = *new Kept;
  return only;
}

const char* asked_directory() {
  const char* const asked = std::getenv(k_directory_variable);
  return asked == nullptr || *asked == '\0' || kept().has_world ? nullptr : asked;
}

bool is_library_known() {
  if (is_matching_library()) {
    return true;
  }
  kept().trouble = fmt::format("this program's MPI is not {}; record it with --mpi {}", k_library,
                               k_library == "MPICH" ? "openmpi" : "mpich");
  return false;
}

bool is_world_model_used() {
  int is_initialized = 0;
  int is_finalized = 0;
  COMMLENS_REAL(PMPI_Initialized)(&is_initialized);
  COMMLENS_REAL(PMPI_Finalized)(&is_finalized);
  return is_initialized != 0 && is_finalized == 0;
}

MPI_Comm job_comm() noexcept { return kept().world; }

void Session::start() noexcept {
  const char* const asked = asked_directory();
  if (asked == nullptr) {
    return;
  }
  try {
    MPI_Comm world{};
    if (is_library_known() && COMMLENS_REAL(PMPI_Comm_dup)(handles().world, &world) == MPI_SUCCESS) {
      start_over(world, asked);
    }
  } catch (const std::exception& error) {
    kept().trouble = error.what();
  }
}

void Session::start_over(MPI_Comm world, const char* directory) {
  int ranks = 1;
  COMMLENS_REAL(PMPI_Comm_rank)(world, &kept().rank);
  COMMLENS_REAL(PMPI_Comm_size)(world, &ranks);
  COMMLENS_REAL(PMPI_Comm_set_errhandler)(world, MPI_ERRORS_RETURN);
  kept().world = world;
  kept().has_world = true;
  std::unique_ptr<Recorder> recorder = opened_recorder(made_directory(directory, ranks));
  const ClockPoint point = clock_point(world);
  if (!recorder) {
    return;
  }
  recorder->add_clock_point(point);
  int level = MPI_THREAD_MULTIPLE;  // the environment may give more than was asked for
  if (is_world_model_used()) {
    COMMLENS_REAL(PMPI_Query_thread)(&level);
  }
  kept().session = new Session(std::move(recorder), level == MPI_THREAD_MULTIPLE);
  pthread_atfork(nullptr, nullptr, [] {  // a child that finalizes has no part in the recording
    current_.store(nullptr, std::memory_order_release);
    kept().has_world = false;
    kept().session = nullptr;
  });
  current_.store(kept().session, std::memory_order_release);
}

void Session::finish() noexcept {
  current_.store(nullptr, std::memory_order_release);
  if (std::exchange(kept().is_over, true)) {
    return;
  }
  try {
    if (!kept().has_world) {
      if (!kept().trouble.empty() && kept().rank == 0) {
        say("nothing was recorded: " + kept().trouble);
      }
      return;
    }
    if (kept().session != nullptr) {
      kept().session->recorder().announce_end();
    }
    const ClockPoint point = clock_point(kept().world);
    std::int64_t dropped = 0;
    if (kept().session != nullptr) {
      Recorder& recorder = kept().session->recorder();
      recorder.add_clock_point(point);
      dropped = kept().session->count_lost();
      recorder.close();
      dropped += recorder.dropped();
    }
    const std::int64_t without = sum_on_first_rank(kept().session == nullptr ? 1 : 0);
    const std::int64_t all_dropped = sum_on_first_rank(dropped);
    if (without > 0 && kept().rank == 0) {
      say(fmt::format("{} rank{} not recorded{}{}", without, without == 1 ? " was" : "s were",
                      kept().trouble.empty() ? "" : ": ", kept().trouble));
    }
    if (all_dropped > 0) {
      say(fmt::format("{} calls were not recorded (commlens summary says why)", all_dropped));
    }
    COMMLENS_REAL(PMPI_Comm_free)(&kept().world);
  } catch (const std::exception& error) {
    say(error.what());
  }
}

}  // namespace commlens::capture

// NOLINTBEGIN(misc-use-anonymous-namespace): the names and parameters are the standard's
using commlens::capture::Session;

static int recorded_MPI_Init(int* count, char*** arguments) {
  const int code = COMMLENS_NEXT(PMPI_Init)(count, arguments);
  if (code == MPI_SUCCESS) {
    Session::start();
  }
  return code;
}
COMMLENS_ENTRY(MPI_Init, PMPI_Init, (int* count, char*** arguments), (count, arguments))

static int recorded_MPI_Init_thread(int* count, char*** arguments, int required, int* provided) {
  const int code = COMMLENS_NEXT(PMPI_Init_thread)(count, arguments, required, provided);
  if (code == MPI_SUCCESS) {
    Session::start();
  }
  return code;
}
COMMLENS_ENTRY(MPI_Init_thread, PMPI_Init_thread,
               (int* count, char*** arguments, int required, int* provided),
               (count, arguments, required, provided))

static int recorded_MPI_Finalize() {
  if (!commlens::capture::is_recorded_over_sessions()) {
    Session::finish();
    commlens::capture::end_own_session();
  }
  return COMMLENS_NEXT(PMPI_Finalize)();
}
COMMLENS_ENTRY(MPI_Finalize, PMPI_Finalize, (void), ())
// NOLINTEND(misc-use-anonymous-namespace)
