#pragma once
#include <filesystem>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::kineto {

/// Reads a trace of torch.profiler (docs/formats/kineto.md). Communication kernels become calls, other
/// kernels compute intervals. What a call moves is taken, in this order, from what PyTorch wrote on the
/// kernel, by the CPU op that launched it, by the kernel's name. A file without communication kernels gives
/// the collectives of its CPU ops. Times are exact nanoseconds; iterations are profiler steps, by launch.
/// Memory: some bytes for each kernel and launch; the file is never in memory as a whole.
Result<Trace> read(const std::filesystem::path& path);

}  // namespace commlens::formats::kineto
