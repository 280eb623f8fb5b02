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

/// Two things to compare, call by call: configurations (they are predicted), traces, files that import reads.
struct CompareRequest {
  std::string a;
  std::string b;
  std::string framework;                     // whose rules predict a configuration; "NAME,NAME" for A and B
  Overrides overrides;                       // what is changed in configurations
  std::optional<IterationRange> iterations;  // default: those both have
  std::vector<CommKind> ignored;             // besides barriers
  bool order = false;                        // another order counts as a difference
  Events events;
};

/// Of a printed log, which has counts and sizes only.
struct FoundInLog {
  LogMatch match;
  std::string other;  // what the log is compared with: "predicted", "A" or "B"
};
/// Of the paper's equations, which give volumes rather than calls.
struct FoundInVolumes {
  std::vector<VolumeDifference> rows;
  Explanation explanation;
};
/// Of the calls of two traces.
struct FoundInCalls {
  Comparison comparison;
  std::optional<WhyCallsDiffer> why;  // where they differ and one side knows its rules
  std::string question;               // on what was given, when nothing is equal; else empty
  bool order_counts = false;
};

/// Both sides, read and predicted, and what differs between them. Sides without iterations are compared over
/// the whole job.
struct CompareResult {
  Side a;
  Side b;
  std::variant<FoundInLog, FoundInVolumes, WholeJobComparison, FoundInCalls> found;
  bool equal() const;
};

/// Fails for what cannot be read, predicted or compared.
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
  std::string a;  // what the sides are
  std::string b;
  Regression regression;
};

/// Fails for sides that are no recordings with times, and for those of different jobs.
Result<RegressionResult> compare_times(const RegressionRequest& request);

std::string rendered(const RegressionResult& result, Format format, const TextStyle& style = {});

}  // namespace commlens
