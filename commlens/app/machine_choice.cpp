#include "commlens/app/machine_choice.hpp"

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/machine/cost/collective.hpp"
#include "commlens/machine/cost/known_pairs.hpp"
#include "commlens/machine/machines.hpp"

namespace commlens {

Result<std::optional<Machine>> lender_of(const Machine& machine) {
  if (machine.borrows.empty()) {
    return std::optional<Machine>();
  }
  return find_machine(machine.borrows)
      .map([](const Machine& lender) { return std::optional(lender); })
      .map_error([&](const Error& error) {
        return Error{fmt::format("machine {}: borrows: {}", machine.name, error.message)};
      });
}

Result<Library> library_on(const std::string& name, const Machine& machine, const Machine* lender) {
  const bool is_amd = machine.processor.architecture == Architecture::cdna2 ||
                      machine.processor.architecture == Architecture::cdna3;
  const std::string usual = is_amd ? "rccl" : "nccl";
  return library_from(name.empty() ? usual : name).and_then([&](Library library) -> Result<Library> {
    if (const Result<void> runs = check_runs_on(library.name, machine); !name.empty() && !runs) {
      return tl::unexpected(runs.error());
    }
    if (library.version.empty()) {
      const bool is_lent = lender != nullptr && calibrations_of(machine, library).empty();
      library.version = default_version(is_lent ? *lender : machine, library.name);
    }
    return library;
  });
}

Result<RunCalibration> run_calibration(const std::string& file) {
  constexpr std::int64_t most = std::int64_t{256} << 20;
  if (file.empty()) {
    return built_in_calibration();
  }
  return read_text_file(file, most).and_then([&](const std::string& content) {
    return read_calibration(file, content);
  });
}

}  // namespace commlens
