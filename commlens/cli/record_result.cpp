#include "commlens/cli/record_result.hpp"

#include <algorithm>
#include <ostream>
#include <system_error>

#include <fmt/format.h>

#include "commlens/base/units.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/record_iterations.hpp"
#include "commlens/report/wrapped.hpp"
#include "commlens/trace/growing_file.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;
using std::chrono::nanoseconds;

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
      "recording cost at least {} a call (measured in this run on memory in the cache; "
      "docs/results/capture.md has 40 ns "
      "for a blocking call, 90 ns for one that a wait completes): {} of {} ({:.2g} %) for the {} calls of "
      "the busiest "
      "rank\n",
      to_text(cost.cost_per_call), to_text(spent), to_text(elapsed), share, with_commas(busiest));
}

/// Whether a rank of the job still records: that of another launcher's process, which ends later.
bool is_still_written(const fs::path& folder) {
  const Result<Manifest> manifest = read_manifest(folder / k_manifest_name);
  return manifest &&
         std::any_of(manifest->streams.begin(), manifest->streams.end(),
                     [&](const StreamEntry& entry) { return is_being_filled(folder / entry.file); });
}

}  // namespace

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
