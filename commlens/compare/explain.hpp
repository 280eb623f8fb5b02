#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/compare/compare.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// A cause of differences: an entry of the hand-written table (causes.hpp).
struct Cause {
  std::string name;      // "attention_mask": short, stable, for programs
  std::string title;     // "attention mask in every send": for tables
  std::string sentence;  // why, for people
  std::string source;    // file and line of its rules, separated by "; "; empty if there is none
};

/// The effect of a cause on one axis and op, in calls and message bytes over all compared ranks: `a` is the
/// surplus of A, `b` that of B. Both are non-zero if one rank has less and another more.
struct ExplainedRow {
  Axis axis = Axis::unknown;
  CommKind kind = CommKind::other;
  std::string rule;    // of a predicted call; empty for a cause that is a setting or a term of an equation
  std::string source;  // file and line of that rule
  std::int64_t calls_a = 0;
  std::int64_t calls_b = 0;
  Bytes message_a;
  Bytes message_b;
  std::int64_t calls() const { return calls_b - calls_a; }  // signed: B - A
  Bytes message() const { return {message_b.value - message_a.value}; }
};

struct ExplainedGroup {
  Cause cause;
  std::vector<ExplainedRow> rows;  // most bytes first
  std::int64_t calls() const;      // signed sum of the rows
  Bytes message() const;
  Bytes moved() const;  // message_a + message_b of all rows: bytes affected by the cause
};

/// The whole difference of two traces by cause. Per axis and op, the signed sum over `explained` and
/// `unexplained` is exactly B - A, in calls and in message bytes.
struct Explanation {
  Iteration iteration = 0;                    // explained; meaningful for explain_steps
  std::int64_t ranks = 0;                     // summed over
  std::vector<ExplainedGroup> explained;      // most affected bytes first
  std::vector<ExplainedRow> unexplained;      // per axis and op, the rest without a rule or setting
  std::vector<Difference> unexplained_calls;  // the same call by call, in full, if calls are known
  std::vector<std::string> notes;             // steps that could not be tried, and why
  bool complete() const { return unexplained.empty() && unexplained_calls.empty(); }
};

/// One intermediate state between two traces: the calls of a job that differs from the previous state in one
/// thing.
struct ExplainStep {
  enum class By : std::uint8_t {
    cause,   // all changes have the cause `cause`
    rules,   // what changes is distinguished by the rule of each call: terms of the paper's equations against
             // the framework's calls of the same purpose, every other call by the cause of its rule
    nothing  // changes are unexplained
  };
  By by = By::cause;
  std::string cause;   // name in the table, for By::cause
  std::string source;  // file and line of its source, if any
  Trace trace;
};

/// Volumes of `first` and of the last step, and the contribution of each step in between, in message bytes of
/// the last iteration that `first` and the last step share, over the ranks that all of them have. Fails as
/// common_scope does. Source of the method: docs/comparing.md.
Result<Explanation> explain_steps(const Trace& first, const std::vector<ExplainStep>& steps,
                                  const CompareOptions& options);

/// The cause of calls predicted by a rule, on groups along `axis`: the rule's own or, for calls of a term of
/// the equations, their purpose. Empty for a rule that the book does not have.
std::string_view cause_of_rule(const RuleBook& book, std::string_view rule, Axis axis);

/// Differences of a call-by-call comparison, grouped by the cause of the rule that predicted the call. Calls
/// that no rule predicted (a recording's own) are unexplained.
Explanation explain_calls(const Comparison& comparison);

/// The same in two steps: `to_closest` compares one side with a prediction that is closer to the other side,
/// `left` compares that prediction with the other side; all differences of `left` are unexplained.
Explanation explain_calls(const Comparison& to_closest, const Comparison& left);

/// The same with A and B exchanged.
Explanation exchanged(Explanation explanation);

}  // namespace commlens
