#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/machines.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/cli/command.hpp"

namespace commlens {
namespace {

constexpr const char* k_machines_examples = R"(Examples:
  commlens machines
  commlens machines dgx_h100 > mine.json
A machine by name is shown as its file: every number with unit, source and confidence.)";

struct MachinesFlags {
  std::vector<std::string> names;
  OutputFlags output;
};

}  // namespace

Action declare_machines(CLI::App& verb) {
  const auto flags = std::make_shared<MachinesFlags>();
  verb.footer(k_machines_examples);
  verb.add_option("MACHINE", flags->names, "Show these in full: names, or files to check");
  declare_output(verb, flags->output);
  return [flags](Console& console) {
    return check_output_place(flags->output.file, flags->names)
        .and_then([&] { return list_machines(flags->names); })
        .map([&](const MachineList& list) {
          for (const Machine& machine : list.in_full ? list.machines : std::vector<Machine>()) {
            if (const std::vector<std::string> missing = missing_numbers(machine); !missing.empty()) {
              warn(console,
                   fmt::format("{} has no {}, which times need", machine.name, fmt::join(missing, ", ")));
            }
          }
          write_rendered(console, flags->output, list);
          return ExitCode::done;
        });
  };
}

}  // namespace commlens
