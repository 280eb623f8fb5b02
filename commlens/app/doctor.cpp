#include "commlens/app/doctor.hpp"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "commlens/app/json_result.hpp"
#include "commlens/app/record_program.hpp"
#include "commlens/base/modules.hpp"
#include "commlens/base/units.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"
#include "commlens/trace/clock.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

Finding of_module(std::string subject, const std::string& file, const std::string& advice) {
  const std::optional<fs::path> found = module_file(file);
  return {std::move(subject), found.has_value(),
          found ? found->string() : fmt::format("{} is not installed; {}", file, advice)};
}

/// The loader's error for a library; std::nullopt if it loads.
std::optional<std::string> load_error(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const error = dlerror();
    return error == nullptr ? "no reason given" : error;
  }
  dlclose(handle);
  return std::nullopt;
}

/// Open MPI's launcher refuses root unless these variables allow it.
bool is_root_refused(MpiLibrary mpi) {
  return mpi == MpiLibrary::openmpi && geteuid() == 0 &&
         (std::getenv("OMPI_ALLOW_RUN_AS_ROOT") == nullptr ||
          std::getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") == nullptr);
}

Finding recording(MpiLibrary mpi) {
  Finding finding = of_module(fmt::format("record {} programs", title_of(mpi)),
                              fmt::format("libcommlens-capture-mpi-{}.so", name_of(mpi)),
                              "build commlens where its headers are installed (its development package)");
  if (!finding.is_possible) {
    return finding;
  }
  if (const std::optional<std::string> error = load_error(finding.detail)) {
    return {finding.subject, false, fmt::format("does not load: {}", *error)};
  }
  const std::optional<fs::path> launcher = launcher_in_path(mpi);
  finding.detail += launcher ? fmt::format("; launcher {}", launcher->string())
                             : std::string("; no launcher of it in PATH");
  if (launcher && is_root_refused(mpi)) {
    finding.detail +=
        ", which runs as root only with OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
  }
  return finding;
}

Finding training_over(MpiLibrary mpi) {
  return of_module(
      fmt::format("train over {}", title_of(mpi)), fmt::format("libcommlens-mpi-{}.so", name_of(mpi)),
      fmt::format("install the package commlens-{}, or build commlens where its headers are installed",
                  name_of(mpi)));
}

Finding of_library(std::string subject, const char* library, const char* missing) {
  const bool is_there = !load_error(library);
  return {std::move(subject), is_there,
          is_there ? std::string(library) : fmt::format("{}: {}", library, missing)};
}

Finding clock_finding() {
  const Clock& clock = Clock::of_process();
  const bool is_tsc = clock.name() == "tsc";
  return {"time stamps without a system call", is_tsc,
          is_tsc
              ? fmt::format("time stamp counter at {} Hz, rate known to {} ppb",
                            with_commas(clock.calibration().frequency_hz), clock.calibration().rate_error_ppb)
              : "no invariant time stamp counter; the kernel's clock costs 20 ns more a reading"};
}

Finding disk_finding() {
  struct statvfs about = {};
  if (statvfs(".", &about) != 0) {
    return {"room for a trace", false, "this directory cannot be read"};
  }
  const Bytes room{static_cast<std::int64_t>(about.f_bavail * about.f_frsize)};
  rlimit limit = {};
  const bool is_limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  constexpr std::int64_t record = 32;
  return {"room for a trace", room.value > std::int64_t{64} << 20,
          fmt::format("{} in this directory: {} calls{}", to_text(room), with_commas(room.value / record),
                      is_limited ? fmt::format("; files may have {} (ulimit -f)",
                                               to_text(Bytes{static_cast<std::int64_t>(limit.rlim_cur)}))
                                 : std::string())};
}

Finding shared_memory_finding() {
  struct statvfs about = {};
  if (statvfs("/dev/shm", &about) != 0) {
    return {"shared memory for ranks of one machine", false,
            "there is no /dev/shm; MPI falls back to sockets"};
  }
  const Bytes room{static_cast<std::int64_t>(about.f_bavail * about.f_frsize)};
  const bool is_enough = room.value > std::int64_t{64} << 20;
  return {"shared memory for ranks of one machine", is_enough,
          fmt::format("{} in /dev/shm{}", to_text(room), is_enough ? "" : "; containers need --shm-size")};
}

Table findings_table(const std::vector<Finding>& all) {
  Table table(columns({"what", "here", Column{.key = "why", .least = 30}}));
  for (const Finding& finding : all) {
    table.add({finding.subject, finding.is_possible, finding.detail});
  }
  return table;
}

}  // namespace

std::vector<Finding> examine_machine() {
  return {
      recording(MpiLibrary::openmpi),
      recording(MpiLibrary::mpich),
      of_module("record NCCL programs (profiler plug-in)", "libcommlens-nccl-profiler.so",
                "this build has none"),
      of_module("record NCCL and RCCL programs (call shim)", "libcommlens-nccl.so", "this build has none"),
      of_module("train", "libcommlens-engine.so",
                "install the package commlens-train, or build commlens where LibTorch is installed"),
      training_over(MpiLibrary::openmpi),
      training_over(MpiLibrary::mpich),
      of_module("serve", "libcommlens-live.so",
                "install the package commlens-live, or build commlens where libmicrohttpd is installed"),
      of_library("NCCL", "libnccl.so.2", "not found by the loader"),
      of_library("NVIDIA GPU driver", "libcuda.so.1", "not found by the loader"),
      clock_finding(),
      disk_finding(),
      shared_memory_finding(),
  };
}

std::string rendered(const std::vector<Finding>& findings, Format format, const TextStyle& style) {
  const Table table = findings_table(findings);
  return in_format(
      format, [&] { return table.text_with_hidden(style); },
      [&] {
        return nlohmann::ordered_json({{"schema", "commlens.doctor/1"}, {"findings", rows_json(table)}});
      },
      [&] { return table.csv(); });
}

}  // namespace commlens
