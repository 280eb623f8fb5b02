#include "commlens/app/machines.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "commlens/app/json_result.hpp"
#include "commlens/machine/machine_reader.hpp"
#include "commlens/machine/machines.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

Cell rate(const std::optional<Quantity>& quantity, double times = 1) {
  return quantity ? Cell(BytesPerSecond{quantity->value * times * 1e9}) : Cell();
}

std::string times_text(const Machine& machine) {
  std::vector<std::string> releases;
  for (const Calibration& calibration : machine.calibrations) {
    const std::string release = fmt::format("{}{}{}", calibration.library,
                                            calibration.version.empty() ? "" : " ", calibration.version);
    if (std::find(releases.begin(), releases.end(), release) == releases.end()) {
      releases.push_back(release);
    }
  }
  return !releases.empty()         ? fmt::format("{}", fmt::join(releases, ", "))
         : machine.borrows.empty() ? "uncalibrated"
                                   : "borrowed from " + machine.borrows;
}

Table machine_table(const MachineList& list) {
  Table table(columns({"machine", Column{.key = "machine_title", .least = 12}, "processor", "ranks_per_node",
                       "link_bytes_per_s", "node_bytes_per_s", Column{.key = "calibrations", .least = 10}}));
  for (const Machine& machine : list.machines) {
    table.add({machine.name, machine.title, machine.processor.name,
               static_cast<std::int64_t>(machine.ranks_per_node.value), rate(machine.up.bandwidth),
               rate(machine.out.bandwidth, machine.out.nics ? machine.out.nics->value : 0),
               times_text(machine)});
  }
  return table;
}

}  // namespace

Result<MachineList> list_machines(const std::vector<std::string>& names) {
  MachineList list;
  list.in_full = !names.empty();
  std::vector<std::string> wanted = names;
  for (const EmbeddedFile& machine : names.empty() ? built_in_machines() : std::span<const EmbeddedFile>()) {
    wanted.emplace_back(machine.stem());
  }
  std::string error;
  for (const std::string& name : wanted) {
    const Result<Machine> machine = find_machine(name);
    if (!machine) {
      error = machine.error().message;
      break;
    }
    list.machines.push_back(*machine);
  }
  return error.empty() ? Result<MachineList>(std::move(list)) : failure(error);
}

std::string rendered(const MachineList& list, Format format, const TextStyle& style) {
  if (list.in_full && format != Format::csv) {
    std::string text;
    for (const Machine& machine : list.machines) {
      text += machine_json(machine);
    }
    return text;
  }
  const Table table = machine_table(list);
  return in_format(
      format, [&] { return table.text_with_hidden(style); },
      [&] {
        return nlohmann::ordered_json({{"schema", "commlens.machines/1"}, {"machines", rows_json(table)}});
      },
      [&] { return table.csv(); });
}

}  // namespace commlens
