#include "commlens/simulate/machine_hardware.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace commlens {
namespace {

constexpr std::int64_t k_large_domain = 64;  // of more than one host

double value_or_zero(const std::optional<Quantity>& quantity) { return quantity ? quantity->value : 0; }

}  // namespace

const Accelerator* accelerator_of(const Machine& machine) {
  return find_accelerator(machine.processor.name, value_or_zero(machine.processor.memory));
}

double stated_peak(const Machine& machine) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (const auto& [type, peak] : machine.processor.peaks) {
      if (type == dtype) {
        return peak.value * 1e12;
      }
    }
  }
  return 0;
}

std::int64_t ranks_on_node(const Machine& machine) {
  return std::max<std::int64_t>(std::llround(machine.ranks_per_node.value), 1);
}

RunHardware machine_hardware(const Machine& machine, std::int64_t ranks) {
  const Accelerator* const known = accelerator_of(machine);
  const std::int64_t node = ranks_on_node(machine);
  RunHardware hardware = known == nullptr ? RunHardware() : known->hardware;
  if (known == nullptr) {
    hardware.gpu = machine.processor.name;
  }
  if (const double peak = stated_peak(machine);
      known == nullptr || (peak > 0 && !known->has_sustained_peak)) {
    hardware.peak = peak;
  }
  hardware.memory_gb = value_or_zero(machine.processor.memory);
  hardware.memory_bandwidth = machine.processor.memory_bandwidth
                                  ? machine.processor.memory_bandwidth->value * 1e9
                                  : hardware.memory_bandwidth;
  if (const bool has_switch = machine.up.kind == "nvswitch";
      machine.up.bandwidth && (known == nullptr || has_switch)) {
    hardware.link = machine.up.bandwidth->value * 1e9;
    hardware.pair_link = 0;
  }
  if (machine.out.nics && machine.out.bandwidth) {
    hardware.network =
        machine.out.nics->value * machine.out.bandwidth->value * 1e9 / static_cast<double>(node);
  }
  // Stragglers are counted by hosts, of which a large domain has many.
  hardware.node = known != nullptr && node >= k_large_domain ? known->hardware.node : node;
  hardware.domain = std::min(node, ranks);
  return hardware;
}

}  // namespace commlens
