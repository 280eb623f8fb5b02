#include "commlens/simulate/coefficients.hpp"

namespace commlens {
namespace {

// In the order of the enumeration. Priors: docs/time-model.md#coefficients.
constexpr std::array<CoefficientFacts, k_coefficients> k_facts = {{
    {"gemm_efficiency", 0.70, 0.25, 0.25, 0.95, "share of the peak",
     "matrix products of endless inner dimension"},
    {"half_inner", 80, 0.35, 10, 400, "elements", "inner dimension of half that efficiency"},
    {"fp8_efficiency", 0.60, 0.3, 0.2, 0.95, "share of twice the peak", "matrix products in fp8"},
    {"attention_efficiency", 0.45, 0.5, 0.08, 0.85, "share of the peak", "fused attention"},
    {"memory_factor", 1.5, 0.4, 0.7, 3.5, "times", "memory-bound work, of what the bandwidth allows"},
    {"layer_launch_us", 500, 0.35, 30, 5000, "us", "a layer and micro-batch, beside its kernels"},
    {"launch_floor_us", 1000, 0.5, 100, 8000, "us", "a layer and micro-batch, at least"},
    {"micro_batch_ms", 0.3, 0.7, 0.01, 10, "ms", "a micro-batch, beside its layers"},
    {"step_ms", 20, 0.7, 0.1, 200, "ms", "an iteration, beside everything else"},
    {"score_bytes", 17, 0.6, 2, 60, "bytes", "memory traffic of a score of unfused attention"},
    {"network_share", 0.75, 0.3, 0.2, 1, "share", "of the network's bandwidth"},
    {"link_share", 0.80, 0.2, 0.3, 1.3, "share", "of the bandwidth inside a node"},
    {"hop_us", 5, 0.6, 0.5, 60, "us", "a step of a ring between nodes"},
    {"tensor_hidden", 0.5, 0.4, 0.05, 0.95, "share", "of overlapped tensor-parallel messages"},
    {"overlap", 0.6, 0.3, 0.1, 1, "share", "of computing that messages hide under"},
    {"contention", 0.2, 0.6, 0.01, 1, "share", "of hidden messages that computing is slower for"},
    {"exchange", 1.5, 0.4, 0.5, 8, "times", "all_to_all of experts, of what the links allow"},
    {"owner_ms", 2.4, 0.3, 0.05, 10, "ms", "a rank of the group whose members broadcast what they own"},
    {"optimizer_bytes", 40, 0.8, 12, 1200, "bytes", "memory traffic of a parameter's update"},
    {"host_bytes", 25000, 0.7, 2000, 200000, "bytes",
     "of a parameter's update on the host, as device traffic"},
    {"logits_factor", 1, 0.4, 0.7, 5, "times", "output projection and loss, of their kernels"},
}};

}  // namespace

const CoefficientFacts& facts_of(Coefficient coefficient) {
  return k_facts[static_cast<std::size_t>(coefficient)];
}

std::optional<Coefficient> coefficient_from(std::string_view key) {
  for (std::size_t index = 0; index < k_coefficients; ++index) {
    if (k_facts[index].key == key) {
      return static_cast<Coefficient>(index);
    }
  }
  return std::nullopt;
}

Coefficients::Coefficients() {
  for (std::size_t index = 0; index < k_coefficients; ++index) {
    values_[index] = k_facts[index].prior;
  }
}

}  // namespace commlens
