#pragma once
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/result.hpp"
#include "commlens/base/table.hpp"
#include "commlens/model/job.hpp"
#include "commlens/plan/plan.hpp"
#include "commlens/summary/breakdown.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Source of the framework: --framework, the case file, or the default for this kind of configuration.
enum class FrameworkChoice : std::uint8_t { flag, case_file, fallback };

/// Which iteration a table shows, and how bytes are counted.
struct PredictionView {
  std::string iteration = "steady";  // init, cold, steady
  Accounting accounting = Accounting::messages;
  std::int64_t ranks_per_node = 0;
  std::optional<Rank> rank;
  FrameworkChoice framework_choice = FrameworkChoice::fallback;
};

/// One iteration of a plan, counted.
struct Prediction {
  PredictionView view;
  Job job;                              // as planned
  std::vector<std::string> unverified;  // settings whose rules were never measured
  Iteration iteration = 0;
  Iteration steady_iteration = 0;
  bool has_other_iterations = false;  // some later ones take another program (OtherProgram)
  Trace trace;                        // of that iteration
  std::vector<BreakdownRow> rows;     // of all ranks, or of the chosen one
  Bytes aggregate_wire;               // of all ranks
  Totals per_rank;                    // of rank 0, or of the chosen one
  Bytes inter_node_per_rank;          // of the same rank
  Flops flops_per_rank;               // of a steady iteration, the mean over the planned ranks
};

Prediction predicted(const Plan& plan, const PredictionView& view);

/// The table, its head and the paper's equations.
std::string prediction_text(const Prediction& prediction, const TextStyle& style);

/// JSON of schema commlens.predict/1 (docs/output.md).
nlohmann::ordered_json prediction_json(const Prediction& prediction);

/// "deepspeed 0.14.0": the rule set, and the version its rules were measured on.
std::string framework_text(const Prediction& prediction);
/// "0.14.0": the version alone.
std::string framework_version(const Prediction& prediction);

/// A value of an equation with thousands separators, and one decimal unless it is an integer.
std::string number_text(double value);

}  // namespace commlens
