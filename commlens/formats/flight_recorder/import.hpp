#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/job_states.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::flight_recorder {

/// A dump of PyTorch's flight recorder (docs/formats/flight-recorder.md), a pickle or JSON, .gz too: the last
/// calls of one rank, those that have not completed among them.
Result<Trace> read(const std::filesystem::path& path);

/// The same with the state of each call. Collectives have the number that they have on all ranks.
Result<StatedTrace> read_states(const std::filesystem::path& path);

/// True when the file is a pickle or a JSON object with the recorder's keys.
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::flight_recorder
