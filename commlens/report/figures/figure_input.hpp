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
#include "commlens/summary/overlap_totals.hpp"
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

/// What a report says of one of its inputs before any number: a setting and its value, in the order shown.
struct InputFacts {
  std::string name;  // of the input
  std::vector<std::pair<std::string, std::string>> facts;
};

/// The input of all figures of a report. A figure whose input is missing reports the reason.
struct FigureInput {
  ResultDocuments documents;                                  // what search and simulate have written
  NamedTrace subject;                                         // the trace the report is about; null: none
  std::optional<std::pair<Iteration, Iteration>> iterations;  // of the subject, first and last; absent: all
  std::int64_t ranks_per_node = 0;                            // 0: not known
  Summary summary;                                            // of the subject, in those iterations
  /// Where initialisation is apart: the iterations that figures of volumes count (of a prediction one, which
  /// the others repeat), and their summary. Else they count all that are shown.
  std::optional<std::pair<Iteration, Iteration>> training;
  std::optional<Summary> training_summary;
  std::vector<SummaryRow> by_phase;       // of what figures of volumes count
  std::vector<SummaryRow> init_by_phase;  // of initialisation, where it is apart
  std::vector<SummaryRow> by_iteration;
  std::optional<OverlapTotals> overlap;    // of training; absent where no call has a time of its own
  std::optional<Stragglers> waits;         // absent where no call has a time of its own
  std::vector<NamedTrace> all;             // every trace given, the subject among them
  std::optional<ComparedTraces> compared;  // two traces
  std::string not_compared;                // why `compared` is absent
  std::optional<Advice> advice;            // for the job of the subject
  std::string not_advised;                 // why `advice` is absent
  std::vector<JobEquation> equations;      // of a predicted job
  std::vector<std::string> unverified;     // settings of predictions whose rules were never measured
  std::vector<InputFacts> facts;           // of each input, configurations first

  const Trace& trace() const { return *subject.trace; }
  /// Of what figures of volumes count.
  const Summary& volumes() const { return training_summary ? *training_summary : summary; }
};

/// The input for one trace, summarised: reads every call of it. `steady`: of a prediction, the iteration that
/// all later ones repeat; absent: the last one.
FigureInput figure_input(NamedTrace subject, std::optional<std::pair<Iteration, Iteration>> iterations,
                         std::int64_t ranks_per_node, std::optional<Iteration> steady = {});

/// The iterations that count as an iteration of training where a trace has initialisation apart, first and
/// last: of a prediction `steady` (else its last one), of others all. Absent where initialisation is not
/// apart or an iteration is not known. `iterations`: those that the trace has.
std::optional<std::pair<Iteration, Iteration>> training_of(const Trace& trace,
                                                           const std::vector<Iteration>& iterations,
                                                           std::optional<Iteration> steady = {});

}  // namespace commlens
