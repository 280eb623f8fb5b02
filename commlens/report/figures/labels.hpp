#pragma once
#include <string>
#include <vector>

#include "commlens/report/figures/figure.hpp"
#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// "all_reduce dp x16", "send pp", "barrier": an op and the group it runs on, as every figure calls it.
std::string call_label(const Trace& trace, CommKind kind, NameId name, Axis axis, std::int64_t group_size);

/// "rank 3", "ranks 0 to 7".
std::string ranks_label(RankRange ranks);

/// "2 iterations (0 to 1)", "initialisation and 2 iterations (0 to 1)", "2 iterations (0, 2)", "iterations
/// unknown"; `iterations` ascend.
std::string iterations_label(std::vector<Iteration> iterations);

/// "1 call", "2,000 calls"; `many` is "calls".
std::string counted(std::int64_t count, const std::string& many);

/// Whether a call of `iteration` is shown; calls of unknown iterations are when all are.
bool is_shown(const FigureInput& input, Iteration iteration);

/// The same of figures of volumes, where initialisation is apart.
bool is_counted(const FigureInput& input, Iteration iteration);
/// What figures of volumes count: "iteration 2", "2 iterations (0 to 1), without initialisation", "the
/// iterations shown".
std::string counted_iterations(const FigureInput& input);

/// Whether a trace's sizes are those of DeepSpeed's comms logger, which reports no groups, hence no wire
/// bytes.
bool is_printed_log(const Trace& trace);
/// Whether a stream has times: of its calls or, if it has none, of its computing.
bool is_timed(const RankStream& stream);
/// Whether any stream has times of single calls.
bool has_times(const Trace& trace);
/// Why a figure of times is absent from such a trace.
std::string no_times_reason(const Trace& trace);

/// Ranks of the job: from its layout, else from the source, else one more than the highest rank.
std::int64_t job_ranks(const Trace& trace);

/// Whether the wire bytes of any call of a summary are known.
bool knows_wire(const Summary& summary);
/// Adds a note on the calls that the wire bytes of a figure do not include.
void note_unknown_wire(const Summary& summary, Figure& figure);

}  // namespace commlens
