#include <memory>

#include <CLI/CLI.hpp>

#include "commlens/app/machines.hpp"
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
    return list_machines(flags->names).map([&](const MachineList& list) {
      write_rendered(console, flags->output, list);
      return ExitCode::done;
    });
  };
}

}  // namespace commlens
