#pragma once
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "commlens/app/compare_sides.hpp"
#include "commlens/app/events.hpp"
#include "commlens/app/explain_sides.hpp"
#include "commlens/app/format.hpp"
#include "commlens/base/result.hpp"
#include "commlens/compare/regression.hpp"
#include "commlens/compare/whole_job.hpp"

namespace commlens {

/// Two inputs to compare, call by call: configurations (which are predicted), traces, or importable files.
struct CompareRequest {
  std::string a;
  std::string b;
  std::string framework;                     // whose rules predict a configuration; "NAME,NAME" for A and B
  Overrides overrides;                       // changes to configurations
  std::optional<IterationRange> iterations;  // default: those both have
  std::vector<CommKind> ignored;             // besides barriers
  bool order = false;                        // another order counts as a difference
  Events events;
  std::optional<Rank> rank{};  // whose calls alone are compared
};

/// The result for a printed log, which has counts and sizes only.
struct FoundInLog {
  LogMatch match;
  std::string other;  // name of the other side: "predicted", "A" or "B"
};
/// The result for the paper's equations, which give volumes rather than calls.
struct FoundInVolumes {
  std::vector<VolumeDifference> rows;
  Explanation explanation;
};
/// The result for the calls of two traces.
struct FoundInCalls {
  Comparison comparison;
  std::optional<WhyCallsDiffer> why;  // present if they differ and one side has rules
  std::string question;  // asks whether the sides belong together if no call is equal; else empty
  bool order_counts = false;
};

/// Both sides, read or predicted, and their differences. Sides without iterations are compared over the whole
/// job.
struct CompareResult {
  Side a;
  Side b;
  std::variant<FoundInLog, FoundInVolumes, WholeJobComparison, FoundInCalls> found;
  bool equal() const;
};

/// Fails if a side cannot be read, predicted or compared.
Result<CompareResult> compare(const CompareRequest& request);

/// The verdict, what A and B are, and the differences by cause; JSON as docs/comparing.md describes; CSV.
std::string rendered(const CompareResult& result, Format format, const TextStyle& style = {});

/// Two recordings of one job, to be compared in time.
struct RegressionRequest {
  std::string a;
  std::string b;
  RegressionOptions options;
  Events events;
};

struct RegressionResult {
  std::string a;  // describes the sides
  std::string b;
  Regression regression;
};

/// Fails unless both sides are recordings with times, of one job.
Result<RegressionResult> compare_times(const RegressionRequest& request);

std::string rendered(const RegressionResult& result, Format format, const TextStyle& style = {});

}  // namespace commlens
