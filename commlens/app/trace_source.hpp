#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Whether an argument names a trace: a directory, "-" (standard input), or a file some importer knows.
/// Anything else is assumed to be a configuration.
bool names_trace(const std::string& argument);

/// Whether `argument` is a case file, which names its framework itself.
bool is_case_file(const std::string& argument);

/// A trace as messages and headings call it: "-" is "standard input".
std::string shown_name(const std::string& argument);

/// The trace in a native folder or an importable file. A configuration is refused with the verb that takes
/// it.
Result<Trace> open_trace(const Events& events, const std::string& argument);

/// One warning where a recorder or a damaged file lost calls, for verbs that do not show what a trace covers:
/// the job made them, and the trace says it did not.
void warn_of_lost_calls(const Events& events, const std::string& argument, const Trace& trace);

/// Fails where a word given as a configuration is a pipe, which no configuration comes through, or a trace,
/// with the verb that takes it. Other words are left to read_config.
Result<void> check_takes_config(const std::vector<std::string>& config);

/// Ranks of the job a trace is about: of its layout, or as its source says, or one more than the highest rank
/// of any stream or group.
std::int64_t ranks_of_job(const Trace& trace);

/// Fails, for --gpus-per-node, where the trace does not tell which ranks are in a group.
Result<void> check_groups_are_known(const Trace& trace);

/// --iterations FIRST-[LAST]: "0-9", "3-" (to the end), "-1-", "4". Absent for an empty text.
using IterationRange = std::pair<Iteration, Iteration>;
Result<std::optional<IterationRange>> iteration_range(const std::string& text);
/// The range as --iterations takes it.
std::string range_text(const IterationRange& range);

}  // namespace commlens
