#include "commlens/report/figures/figure_input.hpp"

#include <algorithm>

#include "commlens/report/figures/labels.hpp"
#include "commlens/summary/time_tally.hpp"

namespace commlens {

std::optional<std::pair<Iteration, Iteration>> training_of(const Trace& trace,
                                                           const std::vector<Iteration>& iterations,
                                                           std::optional<Iteration> steady) {
  const auto first =
      std::find_if(iterations.begin(), iterations.end(), [](Iteration iteration) { return iteration >= 0; });
  const bool is_known = !iterations.empty() && iterations.front() != k_unknown_iteration;
  if (!is_known || first == iterations.end()) {
    return std::nullopt;
  }
  if (trace.provenance.source == Source::predicted) {
    const bool has_steady = steady && std::binary_search(iterations.begin(), iterations.end(), *steady);
    const Iteration one = has_steady ? *steady : iterations.back();
    return std::pair(one, one);
  }
  return first == iterations.begin() ? std::nullopt : std::optional(std::pair(*first, iterations.back()));
}

FigureInput figure_input(NamedTrace subject, std::optional<std::pair<Iteration, Iteration>> iterations,
                         std::int64_t ranks_per_node, std::optional<Iteration> steady) {
  FigureInput input;
  input.subject = std::move(subject);
  input.iterations = iterations;
  input.ranks_per_node = ranks_per_node;
  SummaryOptions options;
  options.iterations = iterations;
  options.ranks_per_node = ranks_per_node;
  input.summary = summarise(input.trace(), options);
  if (!iterations && input.summary.coverage.without_iteration == 0) {
    input.training = training_of(input.trace(), input.summary.iterations.list(), steady);
  }
  SummaryOptions counted = options;
  if (input.training) {
    counted.iterations = input.training;
    input.training_summary = summarise(input.trace(), counted);
  }
  counted.by_phase = true;
  input.by_phase = summary_rows(input.trace(), counted);
  if (input.training) {
    counted.iterations = {k_init_iteration, k_init_iteration};
    input.init_by_phase = summary_rows(input.trace(), counted);
  }
  options.by_iteration = true;
  input.by_iteration = summary_rows(input.trace(), options);
  if (has_times(input.trace())) {
    input.overlap = time_totals(input.trace(), {.iterations = iterations, .rank = {}}).overlap;
    input.waits = stragglers(input.trace(), {.iterations = iterations, .worst = 1});
  }
  input.all = {input.subject};
  return input;
}

}  // namespace commlens
