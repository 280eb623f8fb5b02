#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// A trace of torch.profiler (Kineto), .json or .json.gz, of one rank (docs/formats/kineto.md).
bool sniff_kineto(const std::filesystem::path& path, std::string_view head);

/// Communication kernels become calls, other kernels stretches of computing. What a call moves is told, in
/// this order, by what PyTorch wrote on the kernel, by the CPU op that launched it, by the kernel's name. A
/// file without communication kernels gives the collectives of its CPU ops. Times are exact nanoseconds;
/// iterations are profiler steps, by launch. Memory: some bytes for each kernel and launch; the file is never
/// in memory as a whole.
Result<Trace> read_kineto(const std::filesystem::path& path);

}  // namespace commlens
