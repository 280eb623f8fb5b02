#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commlens/machine/compute/kernel_times.hpp"
#include "commlens/model/train_config.hpp"
#include "commlens/simulate/coefficients.hpp"

namespace commlens {

/// How data-parallel ranks keep their copies of the parameters the same.
enum class DataParallelKind : std::uint8_t {
  replicated,              // all_reduce of the gradients
  optimizer,               // reduce_scatter of gradients, all_gather of parameters
  owners,                  // parameters belong to ranks of a group, who broadcast them
  sharded,                 // parameters are gathered layer by layer, forward and backward
  sharded_until_backward,  // the same, kept from forward to backward
};

constexpr bool is_sharded(DataParallelKind kind) {
  return kind == DataParallelKind::sharded || kind == DataParallelKind::sharded_until_backward;
}

/// The model of a run. Names as in model/model_config.hpp; 0: has none.
struct RunModel {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t sequence = 0;
  bool is_gated = false;
  bool has_tied_embeddings = false;
  bool has_latent_attention = false;
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t expert_ffn = 0;
  std::int64_t shared_experts = 0;
  std::int64_t dense_layers = 0;
};

/// How a run is spread over its devices.
struct RunLayout {
  std::int64_t ranks = 0;
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t virtual_stages = 1;
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;
  DataParallelKind data_kind = DataParallelKind::optimizer;
  std::int64_t shard_group = 0;      // 0: all data-parallel ranks
  bool gathers_inside_node = false;  // a second copy of the shards in each node (hpZ)
  bool has_sequence_parallel = false;
  std::int64_t micro_batch = 1;
  std::int64_t global_batch = 1;  // sequences

  std::int64_t data() const { return ranks / (tensor * pipeline * context); }
  std::int64_t micro_batches() const { return global_batch / (micro_batch * data()); }
};

/// What a framework does with it.
struct RunBehaviour {
  Recompute recompute = Recompute::none;
  MatrixPrecision precision = MatrixPrecision::bf16;
  bool has_fused_attention = true;
  bool overlaps_tensor = false;
  bool overlaps_point_to_point = false;
  bool overlaps_gradients = false;
  bool overlaps_parameters = false;
  bool overlaps_exchange = false;
  bool has_graphs = false;  // kernels of a layer are launched together
  bool has_host_optimizer = false;
  bool reduces_to_all = false;         // gradients are all-reduced, though ranks keep parts of the optimizer
  double gradient_bytes = 4;           // of a reduced gradient
  double accumulation_bytes = 8;       // memory traffic of a parameter's gradient for each micro-batch
  bool stops_repeating_early = false;  // full recomputation ends at the last tensor that is needed
};

/// The devices of a run.
struct RunHardware {
  std::string gpu;  // the name of an Accelerator
  double memory_gb = 0;
  double peak = 0;              // FLOP/s
  double memory_bandwidth = 0;  // bytes/s
  double processors = 1;
  double link = 0;               // bytes/s of a device to others of its domain
  double pair_link = 0;          // the same where a domain's pair is faster or slower; 0: is not
  double network = 0;            // bytes/s of a device to other domains
  std::int64_t domain = 8;       // devices that `link` connects
  std::int64_t node = 8;         // devices of a node
  bool divides_products = true;  // along long inner dimensions, as libraries do (split-K)
  double busy_share = 1;         // of a device's rate alone in its node, where all of them compute
};

/// A training run, as far as the time of its iterations depends on it.
struct TrainingRun {
  std::string id;
  std::string source;  // where it was measured
  std::string family;  // whose coefficients it has: device, network, framework, age
  RunModel model;
  RunHardware hardware;
  RunLayout layout;
  RunBehaviour behaviour;
  CoefficientValues priors;        // what is known of its device and its framework
  std::string assumed;             // what the table does not say; empty: it says all
  bool has_other_trainer = false;  // than the runs of its family, which share libraries alone
  std::optional<double> seconds;   // measured
};

}  // namespace commlens
