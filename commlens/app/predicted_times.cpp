#include "commlens/app/predicted_times.hpp"

#include <fmt/format.h>

#include "commlens/app/machine_choice.hpp"
#include "commlens/machine/machines.hpp"
#include "commlens/simulate/machine_hardware.hpp"
#include "commlens/simulate/timeline/machine_calls.hpp"
#include "commlens/simulate/timeline/simulation.hpp"

namespace commlens {
namespace {

constexpr double k_us = 1e-6;

Result<void> add_times_of(Prediction& prediction, const Machine& machine, MachineCalls times) {
  const std::int64_t ranks = prediction.job.layout.ranks;
  const std::int64_t per_node = ranks_on_node(machine);
  for (BreakdownRow& row : prediction.rows) {
    if (row.no_traffic()) {
      continue;
    }
    const CommOp& op = prediction.trace.op(row.op);
    const CollectiveTime& time =
        times.time(op, placed_group(prediction.trace.groups, op.group, row.ranks.first, per_node, ranks));
    if (!times.error().empty()) {
      return failure(times.error());
    }
    row.time = RowTime{time.us * k_us, time.low_us * k_us, time.high_us * k_us, provenance_text(time)};
  }
  return {};
}

}  // namespace

Result<void> add_times(Prediction& prediction, const std::string& machine_name,
                       const std::string& library_name) {
  return find_machine(machine_name).and_then([&](const Machine& machine) {
    return check_fits(machine, prediction.job.layout.ranks).and_then([&] {
      return lender_of(machine).and_then([&](const std::optional<Machine>& lender) {
        const Machine* const lends = lender ? &*lender : nullptr;
        return library_on(library_name, machine, lends).and_then([&](const Library& library) {
          return add_times_of(prediction, machine, MachineCalls(machine, lends, library));
        });
      });
    });
  });
}

}  // namespace commlens
