#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::nccl_inspector {

/// What the NCCL Inspector plug-in dumps, one JSON object per line (docs/formats/nccl-inspector.md), of one
/// or more processes. Durations are the tool's, in whole µs; what they measure is in the tag.
Result<Trace> read(const std::filesystem::path& path);

/// True when the first line is a JSON object with what only the Inspector writes.
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::nccl_inspector
