#pragma once
#include <string>
#include <string_view>

#include "commlens/app/bench_launch.hpp"
#include "commlens/base/result.hpp"

namespace commlens {

/// The launches of a file that bench has written. Fails where it is none, and where a value is of another
/// kind, no time, or a row is twice in a launch.
Result<BenchRun> read_bench(const std::string& file);

/// The content of such a file.
Result<std::string> read_bench_text(const std::string& file);

/// The launches of such content; `file`: its name, for messages.
Result<BenchRun> parse_bench(const std::string& file, std::string_view content);

}  // namespace commlens
