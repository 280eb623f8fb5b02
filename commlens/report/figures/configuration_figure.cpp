#include "commlens/report/figures/configuration_figure.hpp"

#include "commlens/report/vocabulary.hpp"

namespace commlens {

FigureResult configuration_figure(const FigureInput& input) {
  Table table(columns({"trace", "what", "value"}));
  for (const InputFacts& given : input.facts) {
    for (const auto& [what, value] : given.facts) {
      table.add({given.name, what, value});
    }
  }
  if (table.empty()) {
    return no_figure("nothing is known of how it was made");
  }
  Figure figure;
  figure.columns = figure_columns(table);
  figure.options = {{"facts", true}};
  return figure;
}

}  // namespace commlens
