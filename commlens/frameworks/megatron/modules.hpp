#pragma once
#include <cstdint>
#include <vector>

#include "commlens/frameworks/megatron/stage_layout.hpp"
#include "commlens/model/job.hpp"

namespace commlens::megatron {

/// A module with parameters.
enum class Module : std::uint8_t {
  wte,
  wpe,
  ln1,
  proj,
  qkv,
  q,  // latent attention, from here on
  q_down,
  q_up,
  kv_down,
  kv_up,
  q_norm,
  k_norm,  // of latent attention the norm of keys and values
  ln2,
  fc1,
  fc2,
  router,
  expert_fc1,
  expert_fc2,
  shared_gate,
  shared_fc1,
  shared_fc2,
  mtp_embedding_norm,
  mtp_hidden_norm,
  mtp_proj,
  mtp_final_norm,
  final_norm,
  head
};

/// Where in a chunk: layers of multi-token prediction follow the others; -1 outside of layers.
struct ModulePlace {
  Module module = Module::wte;
  std::int64_t layer = -1;
  friend bool operator==(const ModulePlace&, const ModulePlace&) = default;
};

/// A parameter as one rank holds it.
struct ModuleParameter {
  ModulePlace place;
  std::int64_t count = 0;      // elements on this rank
  std::int64_t columns = 1;    // elements of a row; 1 of a vector
  bool is_expert = false;      // shared by the expert data ranks alone
  bool is_summed = false;      // its gradient is summed over tensor ranks
  bool has_tied_copy = false;  // on another stage
};

/// How tensor ranks and expert ranks share a job's modules.
struct ModuleShares {
  explicit ModuleShares(const Job& job);
  bool sequence_parallel = false;
  std::int64_t tp = 1;
  std::int64_t expert_tp = 1;
  std::int64_t local_experts = 0;
  bool splits_experts = false;   // experts are not parameters of the data ranks
  std::int64_t query_width = 0;  // of all heads together
  std::int64_t qkv_width = 0;
};

/// Whether the block of this index, multi-token prediction behind the last one, is a mixture.
bool is_moe_layer(const Job& job, std::int64_t layer);
/// How many of a chunk's blocks are.
std::int64_t moe_layers(const Job& job, const ChunkLayout& chunk);

/// The parameters of a chunk in named_parameters() order, as the modules of the local specification have it.
/// Source: core/models/gpt/gpt_model.py, gpt_layer_specs.py and the modules there.
std::vector<ModuleParameter> chunk_parameters(const Job& job, const ChunkLayout& chunk);

}  // namespace commlens::megatron
