#include "commlens/app/reproduce/machine_table.hpp"

#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/report/vocabulary.hpp"

namespace commlens::study {
namespace {

void add_quantity(Table& table, std::string what, const Quantity& quantity) {
  table.add({std::move(what), fmt::format("{:.6g} {}", quantity.value, quantity.unit),
             fmt::format("{} (confidence {})", quantity.source, quantity.confidence)});
}

void add_known(Table& table, std::string what, const std::optional<Quantity>& quantity) {
  if (quantity) {
    add_quantity(table, std::move(what), *quantity);
  }
}

void add_processor(Table& table, const Processor& processor) {
  for (const auto& [dtype, peak] : processor.peaks) {
    add_quantity(table, fmt::format("peak in {}, {}", name_of(dtype), processor.name), peak);
  }
  add_known(table, "memory of a rank", processor.memory);
  add_known(table, "bandwidth of its memory", processor.memory_bandwidth);
}

void add_links(Table& table, const Machine& machine) {
  add_known(table, fmt::format("a rank to its node ({})", machine.up.kind), machine.up.bandwidth);
  for (const LinkClass& links : machine.up.classes) {
    add_quantity(table, fmt::format("{} links, {} pairs of ranks", links.name, links.pairs.size()),
                 links.bandwidth);
  }
  add_known(table, fmt::format("NICs of a node ({})", machine.out.type), machine.out.nics);
  add_known(table, "each of them, per direction", machine.out.bandwidth);
  for (const auto& [what, quantity] : machine.out.shape) {
    add_quantity(table, fmt::format("{}: {}", machine.out.kind, what), quantity);
  }
}

}  // namespace

Figure machine_table(const Machine& machine, std::string id) {
  Table table(columns({"what", "value", "source"}));
  add_known(table, "nodes", machine.nodes);
  add_quantity(table, "ranks of a node", machine.ranks_per_node);
  add_processor(table, machine.processor);
  add_links(table, machine);
  Figure figure;
  figure.id = std::move(id);
  figure.title = fmt::format("{} as it is described", machine.title);
  figure.caption = fmt::format(
      "What the machine file {} says, and where each number is from. Confidence: A read in a primary "
      "source, B in a secondary one, C to be verified, D derived, M measured.",
      machine.name);
  figure.columns = figure_columns(table);
  return figure;
}

}  // namespace commlens::study
