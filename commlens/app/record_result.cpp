#include "commlens/app/record_result.hpp"

#include <algorithm>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

#include "commlens/app/record_iterations.hpp"
#include "commlens/base/units.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/trace/growing_file.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;
using std::chrono::nanoseconds;

bool is_of_nccl(const Manifest& manifest) { return manifest.tables.provenance.framework == "nccl"; }

/// How the cost of a call was measured. The NCCL recorders read the clock at every call, the others measure
/// their own work once.
std::string method_text(const Manifest& manifest) {
  return is_of_nccl(manifest) ? "on average (measured at every call of this run; "
                                "what NCCL and the GPU do more for its events is "
                                "not included)"
                              : "(measured in this run on memory in the cache; "
                                "docs/results/capture.md has 40 ns for a blocking "
                                "call, 90 ns for one that a wait completes)";
}

/// The time that recording added to the rank with the most calls.
std::string cost_text(const Manifest& manifest, nanoseconds elapsed) {
  std::int64_t busiest = 0;
  for (const StreamEntry& stream : manifest.streams) {
    busiest = std::max(busiest, stream.events.value_or(0));
  }
  const RecorderCost cost = manifest.tables.provenance.recorder.value_or(RecorderCost{});
  if (cost.cost_per_call.count() == 0) {  // reported by ranks when they end
    return "what recording cost is not known: every rank was killed or aborted, or still runs\n";
  }
  const nanoseconds spent = cost.cost_per_call * busiest;
  const double share = elapsed.count() > 0
                           ? 100.0 * static_cast<double>(spent.count()) / static_cast<double>(elapsed.count())
                           : 0.0;
  return fmt::format(
      "recording cost at least {} a call {}: {} of the command's {} ({:.2g} %) for the {} calls of the "
      "busiest rank{}\n",
      to_text(cost.cost_per_call), method_text(manifest), to_text(spent), to_text(elapsed), share,
      with_commas(busiest),
      is_of_nccl(manifest) ? "" : "; what it does within MPI_Init and MPI_Finalize is not counted");
}

/// The size of the recording, including unfinished calls.
std::string extent_text(const Manifest& manifest) {
  std::int64_t records = 0;
  std::int64_t ring = 0;
  for (const StreamEntry& stream : manifest.streams) {
    records += stream.events.value_or(0);
    ring = std::max(ring, stream.ring);
  }
  return fmt::format("{} records of {} rank{}{}", with_commas(records),
                     with_commas(std::ssize(manifest.streams)), manifest.streams.size() == 1 ? "" : "s",
                     ring == 0 ? "" : fmt::format(", of each the last {} are there", with_commas(ring)));
}

/// Whether a rank of the job still records: a process of another launcher, which ends later.
bool is_still_written(const fs::path& directory) {
  const Result<Manifest> manifest = read_manifest(directory / k_manifest_name);
  return manifest &&
         std::any_of(manifest->streams.begin(), manifest->streams.end(),
                     [&](const StreamEntry& entry) { return is_being_filled(directory / entry.file); });
}

}  // namespace

std::vector<fs::path> recorded_directories(const fs::path& directory) {
  std::vector<fs::path> directories = numbered_directories(directory);
  if (is_trace(directory)) {
    directories.insert(directories.begin(), directory);
  }
  return directories;
}

std::vector<fs::path> numbered_directories(const fs::path& directory) {
  std::vector<fs::path> directories;
  fs::path next = fmt::format("{}-2", directory.string());
  for (int number = 3; is_trace(next); ++number) {
    directories.push_back(next);
    next = fmt::format("{}-{}", directory.string(), number);
  }
  return directories;
}

RecordedJob conclude_recording(const fs::path& directory, nanoseconds elapsed) {
  const auto start = std::chrono::steady_clock::now();
  RecordedJob job;
  job.directory = directory;
  job.iterations = is_still_written(directory)
                       ? "iterations were not looked for: some ranks had not ended yet; see "
                         "commlens summary when they have"
                       : settle_iterations(directory);
  finish_recording(directory, job.iterations);
  const Result<Manifest> manifest = read_manifest(directory / k_manifest_name);
  if (!manifest) {
    throw SystemError(manifest.error().message);
  }
  job.cost = cost_text(*manifest, elapsed);
  job.extent = extent_text(*manifest);
  job.concluding = std::chrono::steady_clock::now() - start;
  return job;
}

}  // namespace commlens
