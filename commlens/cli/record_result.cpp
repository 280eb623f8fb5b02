#include "commlens/cli/record_result.hpp"

#include <algorithm>
#include <cerrno>
#include <ostream>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "commlens/base/units.hpp"
#include "commlens/capture/environment.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/record_iterations.hpp"
#include "commlens/report/wrapped.hpp"
#include "commlens/trace/growing_file.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/trace_file.hpp"
#include "commlens/trace/trace_folder.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;
using std::chrono::nanoseconds;

/// How the cost of a call was found out. The NCCL recorders look at the clock at every call, the others
/// measure their own work once.
std::string method_text(const Manifest& manifest) {
  return manifest.tables.provenance.framework == "nccl" ? "on average (measured at every call of this run; "
                                                          "what NCCL and the GPU do more for its events is "
                                                          "not included)"
                                                        : "(measured in this run on memory in the cache; "
                                                          "docs/results/capture.md has 40 ns for a blocking "
                                                          "call, 90 ns for one that a wait completes)";
}

/// What recording added to the time of the rank that made the most calls.
std::string cost_text(const Manifest& manifest, nanoseconds elapsed) {
  std::int64_t busiest = 0;
  for (const StreamEntry& stream : manifest.streams) {
    busiest = std::max(busiest, stream.events.value_or(0));
  }
  const RecorderCost cost = manifest.tables.provenance.recorder.value_or(RecorderCost{});
  const nanoseconds spent = cost.cost_per_call * busiest;
  const double share = elapsed.count() > 0
                           ? 100.0 * static_cast<double>(spent.count()) / static_cast<double>(elapsed.count())
                           : 0.0;
  return fmt::format(
      "recording cost at least {} a call {}: {} of {} ({:.2g} %) for the {} calls of the busiest rank\n",
      to_text(cost.cost_per_call), method_text(manifest), to_text(spent), to_text(elapsed), share,
      with_commas(busiest));
}

/// Whether a rank of the job still records: that of another launcher's process, which ends later.
bool is_still_written(const fs::path& folder) {
  const Result<Manifest> manifest = read_manifest(folder / k_manifest_name);
  return manifest &&
         std::any_of(manifest->streams.begin(), manifest->streams.end(),
                     [&](const StreamEntry& entry) { return is_being_filled(folder / entry.file); });
}

/// The file by which the ranks of an NCCL job find out who uses a folder; locked for us alone as long as this
/// lives.
class JobFile {
 public:
  explicit JobFile(const fs::path& folder)
      : file_(::open((folder / capture::k_job_file_name).c_str(), O_RDWR | O_CLOEXEC)),
        is_used_(file_ >= 0 && ::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {}
  ~JobFile() {
    if (file_ >= 0) {
      ::close(file_);
    }
  }
  JobFile(const JobFile&) = delete;
  JobFile& operator=(const JobFile&) = delete;
  bool is_used() const { return is_used_; }

 private:
  int file_;
  bool is_used_;
};

bool has_open_rank(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with("rank-") && entry.path().extension() == ".bin" &&
        is_being_filled(entry.path())) {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<bool> remove_trace_unless_used(const fs::path& folder) {
  const JobFile job(folder);
  if (job.is_used() || has_open_rank(folder)) {
    return false;
  }
  if (const Result<void> usable = check_trace_target(folder); !usable) {
    return tl::unexpected(usable.error());
  }
  std::error_code error;
  const fs::path path = fs::canonical(folder, error);
  if (error) {
    return true;  // nothing is there
  }
  // Who waits for the lock meanwhile finds the file gone, and makes a folder of its own.
  const fs::path beside = path.parent_path() / fmt::format(".{}.old.{}", path.filename().string(), getpid());
  fs::rename(path, beside, error);
  if (error == std::errc::no_such_file_or_directory) {
    return true;  // another process of the job was faster
  }
  if (!error) {
    fs::remove_all(beside, error);
  }
  if (error) {
    throw SystemError(fmt::format("cannot remove {}: {}", folder.string(), error.message()));
  }
  return true;
}

std::vector<fs::path> recorded_folders(const fs::path& folder) {
  std::vector<fs::path> folders = numbered_folders(folder);
  if (is_trace(folder)) {
    folders.insert(folders.begin(), folder);
  }
  return folders;
}

std::vector<fs::path> numbered_folders(const fs::path& folder) {
  std::vector<fs::path> folders;
  fs::path next = fmt::format("{}-2", folder.string());
  for (int number = 3; is_trace(next); ++number) {
    folders.push_back(next);
    next = fmt::format("{}-{}", folder.string(), number);
  }
  return folders;
}

void conclude_recording(Console& console, const fs::path& folder, nanoseconds elapsed) {
  const std::string iterations = is_still_written(folder)
                                     ? "iterations were not looked for: some ranks had not ended yet; see "
                                       "commlens summary when they have"
                                     : settle_iterations(folder);
  finish_recording(folder, iterations);
  const Result<Manifest> manifest = read_manifest(folder / k_manifest_name);
  if (!manifest) {
    throw SystemError(manifest.error().message);
  }
  // Standard output belongs to the program that was recorded.
  const TextStyle style = console.err_is_terminal ? console.style : TextStyle{};
  Console own{console.err, console.err, style, false};
  own.out << '\n';
  run({"summary", folder.string()}, own);
  own.out << '\n'
          << wrapped(fmt::format("{}\n", iterations), style) << wrapped(cost_text(*manifest, elapsed), style)
          << std::flush;
}

}  // namespace commlens
