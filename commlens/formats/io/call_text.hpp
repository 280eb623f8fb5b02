#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/formats/io/sink.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats {

/// The parts of a line that depend on the op alone: from phase to output size; tag, rule and name; and what
/// follows the times.
struct OpText {
  std::string head;
  std::string labels;
  std::string end;
  bool is_made = false;
};

/// How one format writes the fields of a call, in the order of docs/formats/calls.md.
struct CallSyntax {
  std::string_view rank;  // what comes before each value
  std::string_view iteration;
  std::string_view unknown_iteration;  // the value of k_unknown_iteration
  std::string_view root;
  std::string_view unknown_root;  // the value for a known group whose root is not known
  std::string_view peer;
  std::string_view micro_batch;
  std::string_view start;
  std::string_view duration;
  bool keeps_absent_fields = false;  // writes the opening of an absent field too (columns)
  OpText (*op_text)(const Trace&, const CommOp&);
  std::string (*group_text)(const GroupTable&, GroupId, const std::vector<Rank>& members);
  std::string (*line_end)(const GroupTable&, GroupId);  // communicator, axis, the end of the line
  std::string_view compute;      // what comes between the iteration of a compute interval and its start
  std::string_view compute_end;  // and after its duration
};

/// Writes every call of `trace` that is selected in blocks of about 1 MiB of whole lines. Text that repeats
/// is made once: per op for the trace, per group for a rank.
void write_calls(const Trace& trace, const CallSelection& selection, const CallSyntax& syntax,
                 const TextSink& sink);

}  // namespace commlens::formats
