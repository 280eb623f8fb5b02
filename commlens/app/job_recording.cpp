#include "commlens/app/job_recording.hpp"

#include <utility>

#include <fmt/format.h>

#include "commlens/app/output_place.hpp"
#include "commlens/trace/trace_directory.hpp"

namespace commlens {
namespace {

tl::unexpected<Error> being_recorded(const std::string& directory) {
  return failure(
      fmt::format("-o {}: another job is being recorded there; choose another directory", directory));
}

}  // namespace

Result<void> check_recording_directory(const std::string& directory) {
  if (const Result<void> usable = check_trace_target(directory); !usable) {
    return failure("-o " + usable.error().message);
  }
  if (const Result<void> usable = check_directory_place("-o", directory); !usable) {
    return usable;
  }
  return is_being_recorded(directory) ? Result<void>(being_recorded(directory)) : Result<void>();
}

Result<JobRecording> JobRecording::started(const std::filesystem::path& directory,
                                           const RecordingInfo& info) {
  Result<EarlierTrace> earlier = EarlierTrace::put_aside(directory);
  if (!earlier) {
    return tl::unexpected(earlier.error());
  }
  if (earlier->is_used()) {
    return being_recorded(directory.string());
  }
  std::optional<RecordingPlace> place = RecordingPlace::taken(earlier->directory(), info);
  if (!place) {
    return being_recorded(directory.string());
  }
  return JobRecording{std::move(*earlier), std::move(place)};
}

}  // namespace commlens
