#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "commlens/advice/advice.hpp"
#include "commlens/compare/compare.hpp"
#include "commlens/compare/explain.hpp"
#include "commlens/report/documents/result_documents.hpp"
#include "commlens/summary/statistics.hpp"
#include "commlens/summary/stragglers.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// A trace under the name the user gave it; the trace outlives this.
struct NamedTrace {
  std::string name;
  const Trace* trace = nullptr;
};

/// Two compared traces. `result` is that of compare, compare_volumes or compare_logged.
struct ComparedTraces {
  NamedTrace a;
  NamedTrace b;
  std::variant<Comparison, std::vector<VolumeDifference>, LoggedComparison> result;
  std::optional<Explanation> explanation;  // absent for printed logs
};

/// An equation of the paper for a job that was predicted.
struct JobEquation {
  std::string equation;  // "2"
  std::string text;      // "2 P (d-1)/d"
  double value = 0;      // as printed
  double value_exact = 0;
  std::string unit;
  std::string scope;
  std::string note;
};

/// The input of all figures of a report. A figure whose input is missing reports the reason.
struct FigureInput {
  ResultDocuments documents;                                  // what search and simulate have written
  NamedTrace subject;                                         // the trace the report is about; null: none
  std::optional<std::pair<Iteration, Iteration>> iterations;  // of the subject, first and last; absent: all
  std::int64_t ranks_per_node = 0;                            // 0: not known
  Summary summary;                                            // of the subject, in those iterations
  std::vector<SummaryRow> by_phase;
  std::vector<SummaryRow> by_iteration;
  std::optional<Stragglers> waits;         // absent where no call has a time of its own
  std::vector<NamedTrace> all;             // every trace given, the subject among them
  std::optional<ComparedTraces> compared;  // two traces
  std::string not_compared;                // why `compared` is absent
  std::optional<Advice> advice;            // for the job of the subject
  std::string not_advised;                 // why `advice` is absent
  std::vector<JobEquation> equations;      // of a predicted job
  std::vector<std::string> unverified;     // settings of predictions whose rules were never measured

  const Trace& trace() const { return *subject.trace; }
};

/// The input for one trace, summarised: reads every call of it.
FigureInput figure_input(NamedTrace subject, std::optional<std::pair<Iteration, Iteration>> iterations,
                         std::int64_t ranks_per_node);

}  // namespace commlens
