#include "commlens/machine/cost/nccl.hpp"

#include <cmath>

namespace commlens {
namespace {

constexpr std::array<const char*, 3> k_protocols = {"LL", "LL128", "Simple"};

double log2_floor(std::int64_t value) { return std::floor(std::log2(static_cast<double>(value))); }

std::size_t span_of(const Placement& place) { return place.nodes == 1 ? 0 : place.nodes == 2 ? 1 : 2; }

std::size_t row_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::ampere:
      return 1;
    case Architecture::hopper:
      return 2;
    case Architecture::blackwell:
      return 3;
    default:
      return 0;
  }
}

/// One call under one setting, with what every algorithm needs.
class NcclEstimate {
 public:
  NcclEstimate(const NcclSetting& setting, const TimedCall& call)
      : setting_(setting),
        tables_(setting.tables),
        call_(call),
        caps_(tables_.caps[row_of(setting.architecture)]),
        span_(span_of(call.place)),
        ranks_(static_cast<double>(call.place.ranks)),
        nodes_(static_cast<double>(call.place.nodes)),
        steps_(static_cast<double>(ring_steps(call.op, call.place.ranks))),
        bus_(static_cast<double>(setting.graph.ring.count) *
             (call.place.nodes <= 2 ? setting.graph.ring.intra : setting.graph.ring.inter)) {}

  void add_tree() {
    if (call_.op != CommKind::all_reduce) {
      return;
    }
    for (std::size_t protocol = 0; protocol < 3; ++protocol) {
      const double hops =
          2 * (static_cast<double>(call_.place.per_node() - 1) * tables_.tree.nvlink[protocol] +
               log2_floor(call_.place.nodes) * tables_.tree.net[protocol]);
      add("tree", protocol, tables_.tree.base[protocol] + hops,
          tree_bus(protocol) * .5 * correction(protocol));
    }
  }

  void add_ring() {
    for (std::size_t protocol = 0; protocol < 3; ++protocol) {
      add("ring", protocol, ring_latency(protocol), ring_bus(protocol) * ranks_ / steps_);
    }
  }

  void add_nvls(bool is_tree) {
    const std::optional<Channels>& nvls = setting_.graph.nvls;
    const bool reduces = is_reducing(call_.op);
    const bool has_op = call_.op == CommKind::all_reduce ||
                        (!is_tree && tables_.nvls_gathers &&
                         (call_.op == CommKind::all_gather || call_.op == CommKind::reduce_scatter));
    // Without CollNet, NVLS alone stays inside a node, and its tree is for several.
    const bool fits = is_tree == (call_.place.nodes > 1);
    const bool has_type = !reduces || size_of(call_.dtype) > 1;  // device.h:587-602
    if (!nvls || nvls->count < 2 || !has_op || !fits || !has_type) {
      return;
    }
    const double speed = nvls_speed(*nvls, is_tree);
    if (speed <= 0) {
      return;
    }
    const NcclLatency& latency = is_tree ? tables_.nvls_tree : tables_.nvls;
    const double between = is_tree ? 2 * log2_floor(call_.place.nodes) * latency.net[k_simple] : 0;
    add(is_tree ? "nvls_tree" : "nvls", k_simple, latency.base[k_simple] + latency.nvlink[k_simple] + between,
        static_cast<double>(nvls->count) * speed);
  }

  void add_pat() {
    const bool has_op = call_.op == CommKind::all_gather || call_.op == CommKind::reduce_scatter;
    if (tables_.pat_share <= 0 || !has_op || call_.place.nodes != call_.place.ranks ||
        call_.place.nodes == 1) {
      return;
    }
    const double hops = log2_floor(call_.place.nodes) * tables_.pat.net[k_simple] / 3.5 + 2.8 * ranks_;
    add("pat", k_simple, tables_.pat.base[k_simple] + hops, bus_ * tables_.pat_share);
  }

  std::vector<Candidate> found() && { return std::move(found_); }

 private:
  void add(const char* algorithm, std::size_t protocol, double latency, double bandwidth) {
    if (bandwidth > 0) {
      found_.push_back({algorithm, k_protocols[protocol], latency, bandwidth,
                        latency + static_cast<double>(call_.bytes.value) / (1000 * bandwidth)});
    }
  }

  /// LL's limit is the GPU's inside a node; between nodes it is the CPU's (tuning.cc:267-272).
  double ll_cap() const {
    return call_.place.nodes == 1           ? caps_.ll[0]
           : setting_.cpu == CpuVendor::amd ? tables_.caps[1].ll[span_]
                                            : tables_.caps[0].ll[span_];
  }

  double per_channel(const BySpan& cap) const {
    return static_cast<double>(setting_.graph.ring.count) * cap[span_];
  }

  double ring_bus(std::size_t protocol) const {
    if (protocol == k_ll) {
      const bool halves_twice = is_reducing(call_.op) && call_.op != CommKind::reduce_scatter;
      const double by_op = halves_twice || call_.place.nodes > 1 ? .25 : 1.0 / 3;
      return std::min(ll_cap(), bus_ * (tables_.ring_ll_by_op ? by_op : tables_.ring_ll_share));
    }
    if (protocol == k_ll128) {
      const double share = call_.place.per_node() < 2 ? tables_.ring_ll128_share_one_per_node : .92;
      return std::min(share * bus_, per_channel(caps_.ring_ll128));
    }
    return bus_;
  }

  double tree_bus(std::size_t protocol) const {
    const double tree = std::min(.92 * bus_, per_channel(caps_.tree));
    if (protocol == k_ll) {
      return std::min(tree / 3.8, ll_cap());
    }
    if (protocol == k_ll128) {
      return std::min(tree * (call_.place.nodes == 1 ? 7.0 / 9 : 120.0 / 128), per_channel(caps_.tree_ll128));
    }
    return tree;
  }

  double correction(std::size_t protocol) const {
    const std::int64_t units = call_.bytes.value >> 6;
    if (units < 1) {
      return 1;
    }
    const auto k = static_cast<std::size_t>(log2_floor(units));
    return k + 1 < k_nccl_tree_corrections ? nccl_tree_correction(protocol, k) : 1;
  }

  double ring_latency(std::size_t protocol) const {
    const bool one_per_node = call_.place.per_node() == 1 && tables_.one_per_node_takes_tree_net;
    const double net = (one_per_node ? tables_.tree : tables_.ring).net[protocol];
    const double link = tables_.ring.nvlink[protocol];
    const double base = tables_.ring.base[protocol];
    if (has_root(call_.op)) {
      return base + (call_.place.nodes == 1 ? link : steps_ * net);
    }
    double between = 0;
    double overhead = 0;
    if (call_.place.nodes > 1) {
      const double passes = call_.op == CommKind::all_reduce ? 2 : 1;
      between = tables_.counts_all_inter_steps ? passes * nodes_ : passes * (nodes_ - 1);
      overhead = (setting_.cpu == CpuVendor::amd ? 2.0 : 1.0) * (protocol == k_simple ? 3 : 1);
    }
    const double latency = base + (steps_ - between) * std::max(link, overhead) + between * net;
    const double per_rank =
        static_cast<double>(call_.bytes.value) / (static_cast<double>(setting_.graph.ring.count) * ranks_);
    const bool is_plateau =
        call_.op == CommKind::all_reduce && call_.place.nodes > 1 && protocol == k_simple && per_rank >= 64;
    return latency * (!is_plateau ? 1 : row_of(setting_.architecture) >= 1 ? 1.4 : 1.9);
  }

  /// GB/s of one channel, as bytes of the call over time.
  double nvls_speed(const Channels& nvls, bool is_tree) const {
    const auto count = static_cast<double>(nvls.count);
    const double inter =
        (call_.place.nodes == 1 ? nvls.intra : nvls.inter) * (is_tree && call_.place.nodes <= 2 ? 2 : 1);
    const double others =
        static_cast<double>(call_.place.per_node() - 1) / static_cast<double>(call_.place.per_node());
    if (!tables_.nvls_has_efficiency) {
      const bool gathers = call_.op != CommKind::all_reduce && tables_.nvls_gather_share;
      const double speed = gathers ? std::min(nvls.intra * others, .9 * inter) : std::min(nvls.intra, inter);
      const double share = is_tree && tables_.nvls_tree_halves ? .7 * nodes_ / (2 * (nodes_ - 1)) : 5.0 / 6;
      return speed * share;
    }
    const double intra = nvls.intra * caps_.nvls_efficiency * (count - 1) / count *
                         (call_.op == CommKind::all_reduce ? 2 : others);
    double speed = std::min(intra, inter);
    if (is_tree) {
      speed = std::min(speed, caps_.nvls_tree[span_]);
    }
    return speed * ranks_ / steps_;
  }

  const NcclSetting& setting_;
  const NcclTables& tables_;
  const TimedCall& call_;
  const NcclCaps& caps_;
  std::size_t span_;
  double ranks_;
  double nodes_;
  double steps_;
  double bus_;
  std::vector<Candidate> found_;
};

}  // namespace

std::vector<Candidate> nccl_candidates(const NcclSetting& setting, const TimedCall& call) {
  if (call.place.ranks == 1) {
    return {{"ring", "Simple", 0, 0, 0}};
  }
  NcclEstimate estimate(setting, call);
  estimate.add_tree();
  estimate.add_ring();
  estimate.add_nvls(false);
  estimate.add_nvls(true);
  estimate.add_pat();
  std::vector<Candidate> found = std::move(estimate).found();
  if (call.dtype == DType::fp8 && call.place.ranks > 8) {  // enqueue.cc:2017
    for (Candidate& candidate : found) {
      candidate.library_us *= candidate.algorithm == "ring" ? 1024 : 1;
    }
  }
  return found;
}

bool nccl_has(std::string_view algorithm, CommKind op, const Placement& place) {
  const bool gathers = op == CommKind::all_gather || op == CommKind::reduce_scatter;
  if (algorithm == "ring") {
    return true;
  }
  if (algorithm == "tree") {
    return op == CommKind::all_reduce;
  }
  if (algorithm == "nvls") {
    return place.nodes == 1 && (gathers || op == CommKind::all_reduce);
  }
  if (algorithm == "nvls_tree") {
    return place.nodes > 1 && op == CommKind::all_reduce;
  }
  return algorithm == "pat" && gathers && place.nodes == place.ranks && place.nodes > 1;
}

}  // namespace commlens
