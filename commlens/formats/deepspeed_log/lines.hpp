#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "commlens/base/units.hpp"
#include "commlens/comm/event.hpp"

namespace commlens::formats::deepspeed_log {

/// A size as DeepSpeed prints it, "268.66 MB" or "0B": the nearest whole byte, and how far the truth may be
/// from it. Source: deepspeed/utils/comms_logging.py convert_size: units of 1024, rounded to two decimals.
struct PrintedSize {
  Bytes size;
  Bytes rounding;
};
std::optional<PrintedSize> printed_size(std::string_view number, std::string_view unit);

/// The collective that DeepSpeed logs under a name ("all_gather_into_tensor", "isend",
/// "log_summary_barrier"); std::nullopt if we do not know it.
std::optional<CommKind> deepspeed_kind(std::string_view name);

/// "all_reduce" or, with the option `debug`, "all_reduce | [Caller Func: average_tensor]".
struct LoggedOp {
  std::string name;
  std::string caller;
};
std::optional<LoggedOp> logged_op(std::string_view text);

/// "    6.0 MB    12    1.20    0.10    0.95    0.95": the line of a summary table that follows an op: a
/// size, how often, and at least four more numbers.
struct TableRow {
  PrintedSize size;
  std::int64_t count = 0;
};
std::optional<TableRow> table_row(std::string_view line);

/// "Comm. Op   Message Size   Count   Total Latency(ms)   …": the header of a summary table: the text before
/// it (what a launcher puts before each line), and whether it is the table of stragglers, which repeats the
/// sizes and counts of the one before.
struct TableHeader {
  std::string prefix;
  bool is_of_stragglers = false;
};
std::optional<TableHeader> table_header(std::string_view line);

/// "comm op: all_reduce | time (ms): 0.11 | msg size: 6.0 MB | algbw (Gbps): 954.41 | …": one call, printed
/// when it happened (option `verbose`).
struct VerboseLine {
  LoggedOp op;
  PrintedSize size;
};
std::optional<VerboseLine> verbose_line(std::string_view line);

}  // namespace commlens::formats::deepspeed_log
