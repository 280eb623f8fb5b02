#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/doctor.hpp"
#include "commlens/app/doctor_machine.hpp"
#include "commlens/app/output_place.hpp"
#include "commlens/base/file.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/machine/machine_reader.hpp"

namespace commlens {
namespace {

constexpr const char* k_doctor_examples = R"(Examples:
  commlens doctor
  commlens doctor --format json
  commlens doctor --machine here.json && commlens machines here.json
"yes" rows work here; "no" rows say what is missing.)";

struct DoctorFlags {
  std::string machine;
  OutputFlags output;
};

Result<void> write_machine_here(const std::string& file, Console& console) {
  return machine_here().and_then([&](const Machine& machine) -> Result<void> {
    if (const std::vector<std::string> missing = missing_numbers(machine); !missing.empty()) {
      warn(console,
           fmt::format("{}: nothing here says {}, which times need", file, fmt::join(missing, ", ")));
    }
    write_file_atomically(file, machine_json(machine));
    return {};
  });
}

}  // namespace

Action declare_doctor(CLI::App& verb) {
  const auto flags = std::make_shared<DoctorFlags>();
  verb.footer(k_doctor_examples);
  verb.add_option("--machine", flags->machine,
                  "Write a machine file of this machine: what hwloc, NVML and ROCm SMI say of it")
      ->type_name("FILE");
  declare_output(verb, flags->output);
  return [flags](Console& console) {
    return check_output_place(flags->output.file, {})
        .and_then([&] {
          return flags->machine.empty() ? Result<void>() : check_file_place("--machine", flags->machine);
        })
        .and_then([&] {
          return flags->machine.empty() ? Result<void>() : write_machine_here(flags->machine, console);
        })
        .map([&] {
          write_rendered(console, flags->output, examine_machine());
          return ExitCode::done;
        });
  };
}

}  // namespace commlens
