#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::mpip {

/// A report of mpiP (docs/formats/mpip.md): the calls of each call site on each rank, without times, groups
/// and order. Sizes are known to within CommOp::rounding; the sum over a site's calls is the printed one.
Result<Trace> read(const std::filesystem::path& path);

/// True when the text starts as every report does.
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::mpip
