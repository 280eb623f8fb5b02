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

/// The files of a configuration given as one argument, where each argument is an input of its own: several of
/// one configuration have a + between them, "1.3B+ds_config.json". A name that exists is one file.
std::vector<std::string> files_of(const std::string& argument);
/// Those of all arguments.
std::vector<std::string> all_files_of(const std::vector<std::string>& arguments);

/// The name of a trace in messages and headings: "standard input" for "-".
std::string shown_name(const std::string& argument);

/// The trace in a native directory or an importable file. A configuration is refused with a hint at the verb
/// that takes it.
Result<Trace> open_trace(const Events& events, const std::string& argument);

/// Warns if a recorder or a damaged file lost calls, for verbs that do not show what a trace covers: the job
/// made these calls, but the trace does not have them.
void warn_of_lost_calls(const Events& events, const std::string& argument, const Trace& trace);

/// Fails if a word given as a configuration is a pipe or a trace, with a hint at the verb that takes it.
/// Other words are checked by read_config.
Result<void> check_takes_config(const std::vector<std::string>& config);

/// Ranks of a trace's job: from its layout, else from its source, else one more than the highest rank of any
/// stream or group.
std::int64_t ranks_of_job(const Trace& trace);

/// Fails, for --gpus-per-node, if the members of the trace's groups are not known.
Result<void> check_groups_are_known(const Trace& trace);

/// --iteration FIRST-[LAST]: "0-9", "3-" (to the end), "-1-", "4". Absent for an empty text.
using IterationRange = std::pair<Iteration, Iteration>;
Result<std::optional<IterationRange>> iteration_range(const std::string& text);
/// The range as --iteration takes it.
std::string range_text(const IterationRange& range);

}  // namespace commlens
