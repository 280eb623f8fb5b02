#include "commlens/machine/cost/rccl.hpp"

#include <cmath>

#include "commlens/machine/cost/rccl_tables.hpp"

namespace commlens {
namespace {

constexpr const char* k_names[] = {"LL", "LL128", "Simple"};
constexpr double k_base_us[] = {12, 12, 17};
constexpr std::size_t k_tree = 0;
constexpr std::size_t k_ring = 1;

std::size_t bin_of(Bytes bytes) {
  const std::int64_t units = std::max<std::int64_t>(bytes.value >> 6, 1);
  const auto k = static_cast<std::size_t>(std::floor(std::log2(static_cast<double>(units))));
  return std::min(k, k_rccl_bins - 1);
}

double rccl_latency(const RcclModel& model, const TimedCall& call, CpuVendor cpu, std::size_t algorithm,
                    std::size_t protocol) {
  const double link = model.link_latency[algorithm][protocol];
  const double net = model.net_latency[algorithm][protocol];
  const auto nodes = static_cast<double>(call.place.nodes);
  if (algorithm == k_tree) {
    return k_base_us[protocol] +
           2 * (static_cast<double>(call.place.per_node() - 1) * link + std::floor(std::log2(nodes)) * net);
  }
  const auto steps = static_cast<double>(ring_steps(call.op, call.place.ranks));
  if (has_root(call.op)) {
    return k_base_us[protocol] + (call.place.nodes == 1 ? link : steps * net);
  }
  double between = 0;
  double overhead = 0;
  if (call.place.nodes > 1) {
    between = call.op == CommKind::all_reduce ? 2 * nodes : nodes - 1;
    overhead = (cpu == CpuVendor::amd ? 2.0 : 1.0) * (protocol == 2 ? 3 : 1);
  }
  return k_base_us[protocol] + std::max(steps - between, 0.0) * std::max(link, overhead) + between * net;
}

}  // namespace

std::vector<Candidate> rccl_candidates(const RcclSetting& setting, const TimedCall& call) {
  if (call.place.ranks == 1) {
    return {{"ring", "Simple", 0, 0, 0}};
  }
  const RcclModel& model = rccl_model(setting.model);
  const bool is_one = call.place.nodes == 1;
  const double bus = static_cast<double>(setting.graph.ring.count) *
                     (call.place.nodes <= 2 ? setting.graph.ring.intra : setting.graph.ring.inter);
  const std::size_t bin = bin_of(call.bytes);
  std::vector<Candidate> found;
  for (const std::size_t algorithm : {k_tree, k_ring}) {
    if (algorithm == k_tree && call.op != CommKind::all_reduce) {
      continue;
    }
    for (std::size_t protocol = 0; protocol < 3; ++protocol) {
      double bandwidth = bus * model.share[call.place.nodes <= 2 ? 0 : 1][algorithm][protocol];
      if (algorithm == k_tree) {
        const bool skips = setting.architecture == Architecture::cdna3 && is_one && protocol == 2;
        bandwidth *= skips ? 0 : .5 * model.tree_correction[protocol][bin];
      } else {
        bandwidth *= static_cast<double>(call.place.ranks) /
                     static_cast<double>(ring_steps(call.op, call.place.ranks)) *
                     (is_one ? 1 : model.ring_correction[protocol][bin]);
      }
      if (bandwidth > 0) {
        const double latency = rccl_latency(model, call, setting.cpu, algorithm, protocol);
        found.push_back({algorithm == k_tree ? "tree" : "ring", k_names[protocol], latency, bandwidth,
                         latency + static_cast<double>(call.bytes.value) / (1000 * bandwidth)});
      }
    }
  }
  return found;
}

}  // namespace commlens
