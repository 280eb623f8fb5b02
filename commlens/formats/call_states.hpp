#pragma once
#include <filesystem>

#include "commlens/base/result.hpp"
#include "commlens/trace/job_states.hpp"

namespace commlens::formats {

/// Reads a file that says how far each call of a rank has come: a dump of PyTorch's flight recorder. Fails on
/// any other.
Result<StatedTrace> read_call_states(const std::filesystem::path& path);

}  // namespace commlens::formats
