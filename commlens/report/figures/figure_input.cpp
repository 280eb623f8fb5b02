#include "commlens/report/figures/figure_input.hpp"

#include "commlens/report/figures/labels.hpp"

namespace commlens {

FigureInput figure_input(NamedTrace subject, std::optional<std::pair<Iteration, Iteration>> iterations,
                         std::int64_t ranks_per_node) {
  FigureInput input;
  input.subject = std::move(subject);
  input.iterations = iterations;
  input.ranks_per_node = ranks_per_node;
  SummaryOptions options;
  options.iterations = iterations;
  options.ranks_per_node = ranks_per_node;
  input.summary = summarise(input.trace(), options);
  options.by_phase = true;
  input.by_phase = summary_rows(input.trace(), options);
  options.by_phase = false;
  options.by_iteration = true;
  input.by_iteration = summary_rows(input.trace(), options);
  if (has_times(input.trace())) {
    input.waits = stragglers(input.trace(), {.iterations = iterations, .worst = 1});
  }
  input.all = {input.subject};
  return input;
}

}  // namespace commlens
