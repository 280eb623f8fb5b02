#include <memory>

#include <CLI/CLI.hpp>

#include "commlens/app/doctor.hpp"
#include "commlens/cli/command.hpp"

namespace commlens {
namespace {

constexpr const char* k_doctor_examples = R"(Examples:
  commlens doctor
  commlens doctor --format json
"yes" rows work here; "no" rows say what is missing.)";

}  // namespace

Action declare_doctor(CLI::App& verb) {
  const auto flags = std::make_shared<OutputFlags>();
  verb.footer(k_doctor_examples);
  declare_output(verb, *flags);
  return [flags](Console& console) {
    write_rendered(console, *flags, examine_machine());
    return Result<ExitCode>(ExitCode::done);
  };
}

}  // namespace commlens
