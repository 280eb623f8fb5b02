#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/trace/rule_book.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

struct CompareOptions {
  // First and last requested iteration; default: all. Only iterations that both sides have are compared.
  std::optional<std::pair<Iteration, Iteration>> iterations;
  std::vector<CommKind> ignored;  // in addition to barriers, which are always ignored
  bool order_counts = false;
  const RuleBook* rules = nullptr;  // causes of the predicting rules; without it no difference has a cause
};

/// exact: same op, dtype, sizes, group and root or peer. size: same op and group, other bytes (or dtype).
/// missing: only the first trace (A) has it. extra: only the second (B) has it.
enum class Verdict : std::uint8_t { exact, size, missing, extra };
std::string_view name_of(Verdict verdict);

/// Equal differences on several ranks and iterations, with one example.
struct Difference {
  Verdict verdict = Verdict::missing;
  CommKind kind = CommKind::other;
  Axis axis = Axis::unknown;
  std::int64_t group_size = 0;
  std::optional<CommOp> a;  // absent for extra
  std::optional<CommOp> b;  // absent for missing
  bool logged_a = false;    // A has one size per call, as printed by DeepSpeed's comms logger
  bool logged_b = false;
  std::int64_t calls = 0;  // over all ranks and iterations compared
  std::int64_t ranks = 0;  // number of ranks with this difference
  Rank example_rank;
  Iteration example_iteration = 0;
  std::vector<Rank> example_group;
  Rule rule;               // of the predicted side, if any
  std::string_view cause;  // of that rule (explain.hpp); empty where it is not known
  std::string tag;
};

/// Calls that are equal but for how they combine values, as far as both sides report it.
struct ReduceOpDifference {
  CommKind kind = CommKind::all_reduce;
  Reduction a = Reduction::unknown;
  Reduction b = Reduction::unknown;
  std::int64_t calls = 0;  // over all ranks and iterations compared
};

/// Equal calls whose sizes depend on data (Match::count): only their number was compared.
struct CountedSizes {
  CommKind kind = CommKind::all_to_all;
  Axis axis = Axis::unknown;
  std::int64_t group_size = 0;
  std::int64_t calls = 0;  // over all ranks and iterations compared
  Bytes message_a;         // of all of them
  Bytes message_b;
  /// Whether the mean sizes are further apart than k_counted_tolerance: data make single sizes, and settings
  /// (how many experts a token goes to, their capacity) the mean.
  bool are_apart() const;
};
constexpr double k_counted_tolerance = 0.05;

struct Comparison {
  std::vector<Iteration> iterations;  // compared
  std::int64_t ranks = 0;             // compared
  std::int64_t calls_a = 0;           // within those, barriers and ignored ops skipped
  std::int64_t calls_b = 0;
  std::int64_t exact = 0;
  std::int64_t size = 0;
  std::int64_t missing = 0;
  std::int64_t extra = 0;
  std::int64_t ignored = 0;  // barriers and ignored ops of both sides
  std::int64_t order_differs =
      0;                          // (rank, iteration) pairs whose exact multisets are issued in another order
  std::vector<Iteration> only_a;  // requested, but only one side has them: not compared
  std::vector<Iteration> only_b;
  std::int64_t ranks_only_a = 0;  // ranks only one side has: not compared
  std::int64_t ranks_only_b = 0;
  std::vector<Difference> differences;         // most bytes first
  std::vector<ReduceOpDifference> reduce_ops;  // of exact calls; reported, they make no difference
  std::vector<CountedSizes> counted_sizes;     // of equal calls; they make no difference
  std::int64_t other_reduce_op() const;        // calls of `reduce_ops`
  bool equal() const { return size == 0 && missing == 0 && extra == 0; }
};

/// Compares call by call, per rank and iteration (as multisets, docs/comparing.md). Ops of Match::count
/// match on kind, type, group and count alone. Reduce ops that differ are listed apart. Fails if the traces
/// share no rank or no iteration; the error lists those of each.
Result<Comparison> compare(const Trace& a, const Trace& b, const CompareOptions& options);

/// Volumes per axis and op, for a side with volumes rather than calls (rule set `paper`), in message bytes of
/// one iteration summed over all ranks that both traces have.
struct VolumeDifference {
  Axis axis = Axis::unknown;
  CommKind kind = CommKind::other;
  std::int64_t calls_a = 0;
  std::int64_t calls_b = 0;
  Bytes message_a;
  Bytes message_b;
};
Result<std::vector<VolumeDifference>> compare_volumes(const Trace& a, const Trace& b,
                                                      const CompareOptions& options);

/// Printed logs of DeepSpeed's comms logger: rounded sizes, one rank, counts over the whole run. One row per
/// op and printed size, against the predicted calls whose logger view lies in the interval.
struct LoggedRow {
  CommKind kind = CommKind::other;
  Bytes size;      // as printed
  Bytes rounding;  // the true size is within ± this
  std::int64_t logged = 0;
  std::int64_t predicted = 0;            // init + cold + (iterations - 1) * steady
  std::vector<std::string> rules;        // names of the rules of the predicted calls
  std::vector<std::string_view> causes;  // of those rules, each once
};
struct LoggedComparison {
  std::int64_t iterations = 0;  // of training: the best fit to the log, or as requested
  bool iterations_fitted = false;
  std::vector<LoggedRow> rows;
  std::int64_t exact_rows = 0;
  std::int64_t ignored_rows = 0;  // skipped with their ops
  bool equal() const { return exact_rows == static_cast<std::int64_t>(rows.size()); }
};

/// `predicted` must hold initialisation and iterations in the order of the run, whatever their numbers, of
/// which the last one is steady; `log` has Accounting::comms_logger. Rank 0 of the prediction is used, in the
/// logger's accounting. Ops of the kinds `ignored` are skipped on both sides, before iterations are fitted.
Result<LoggedComparison> compare_logged(const Trace& predicted, const Trace& log,
                                        std::optional<std::int64_t> iterations,
                                        const std::vector<CommKind>& ignored = {},
                                        const RuleBook& rules = {});

}  // namespace commlens
