#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "commlens/base/table.hpp"
#include "commlens/comm/event.hpp"
#include "commlens/engine/train.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// Rates derived from an iteration's times.
struct IterationRates {
  double time_s = 0;
  double tokens_per_second = 0;          // of the whole job
  double flops_per_second_per_rank = 0;  // model/flops.hpp
  double communication_share = 0;        // of the time: rank 0 was blocked in communication
};
IterationRates rates_of(const engine::IterationReport& iteration, const Job& job);

/// The mean times and communication of iterations, without a loss. At least one iteration.
engine::IterationReport mean_of(const std::vector<engine::IterationReport>& iterations);

/// Lines of a table that is printed while it grows, with fixed column widths. On a narrow terminal the
/// columns of single ops are hidden first, the last ones before the others.
class IterationTable {
 public:
  /// `ops`: ops with a column for their share of the time, the most important first.
  IterationTable(const Job& job, const std::vector<CommKind>& ops, const TextStyle& style);

  std::string title_line() const;
  /// `is_mean`: without loss and number.
  std::string line(const engine::IterationReport& iteration, bool is_mean = false) const;
  /// Titles of the hidden columns.
  const std::vector<std::string>& hidden() const { return hidden_; }

 private:
  /// A column: its title, its width (as wide as any cell), its text.
  struct Cell {
    std::string title;
    std::size_t width = 0;
    std::function<std::string(const engine::IterationReport&, const IterationRates&)> text;
    bool in_mean = true;
  };
  std::string joined(const std::function<std::string(const Cell&)>& text) const;

  Job job_;
  std::vector<Cell> cells_;
  std::vector<std::string> hidden_;
};

/// A row per iteration, of which `cold` is the first of the run.
Table iterations_table(const std::vector<engine::IterationReport>& iterations, const Job& job,
                       std::int64_t cold);

}  // namespace commlens
