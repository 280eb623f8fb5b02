#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::nccl_profiler_plugin {

/// What NCCL's example profiler plug-in (ext-profiler/example) dumps (docs/formats/nccl-profiler-plugin.md):
/// a JSON array that is not always valid, so it is read line by line. Calls with the GPU's times where all
/// channels have them.
Result<Trace> read(const std::filesystem::path& path);

/// True when the first event is one that only this plug-in writes.
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::nccl_profiler_plugin
