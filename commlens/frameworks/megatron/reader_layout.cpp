// How arguments of Megatron split a job: degrees, stages, experts.
#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/frameworks/megatron/options.hpp"
#include "commlens/frameworks/megatron/reader_parts.hpp"
#include "commlens/frameworks/megatron/stage_layout.hpp"

namespace commlens::megatron {
namespace {

/// Virtual stages, by their number or by their layers. Source: core_v0.19.0 megatron/training/arguments.py,
/// validate_args.
void read_virtual_stages(MapReader& arguments, Job& job) {
  const Options& own = options(job);
  ParallelLayout& layout = job.layout;
  std::int64_t chunk = 0;
  std::int64_t chunks = 0;
  arguments.read("num_layers_per_virtual_pipeline_stage", chunk);
  arguments.read("num_virtual_stages_per_pipeline_rank", chunks);
  if (arguments.failed() || (chunk == 0 && chunks == 0)) {
    return;
  }
  if (chunk > 0 && chunks > 0) {
    arguments.fail("num_virtual_stages_per_pipeline_rank",
                   "and num_layers_per_virtual_pipeline_stage both stand here; leave one out");
    return;
  }
  if (chunk > 0) {
    const std::int64_t layers =
        job.model.layers + (own.embedding_counts_as_layer ? 1 : 0) + (own.loss_counts_as_layer ? 1 : 0);
    const std::int64_t per_stage = layers / layout.pp;
    if (layers % layout.pp != 0 || per_stage % chunk != 0 || per_stage == 0) {
      arguments.fail("num_layers_per_virtual_pipeline_stage",
                     fmt::format("is {}, which does not divide the {} layers of {} pipeline stages", chunk,
                                 layers, layout.pp));
      return;
    }
    chunks = per_stage / chunk;
  }
  layout.virtual_stages = chunks;
}

/// A layout written out decides the number of virtual stages.
void read_stage_layout(MapReader& arguments, Job& job) {
  Options& own = options(job);
  arguments.read("pipeline_model_parallel_layout", own.stage_layout);
  if (arguments.failed() || own.stage_layout.empty()) {
    return;
  }
  constexpr std::size_t longest = 100'000;
  std::int64_t parts = 0;
  if (own.stage_layout.size() <= longest) {
    parts = parts_of_layout(own.stage_layout);
  }
  if (parts < job.layout.pp || parts % job.layout.pp != 0) {
    arguments.fail("pipeline_model_parallel_layout",
                   fmt::format("has {} parts, which {} pipeline stages cannot share", parts, job.layout.pp));
    return;
  }
  const std::int64_t asked = job.layout.virtual_stages;
  job.layout.virtual_stages = parts / job.layout.pp;
  if (asked > 1 && asked != job.layout.virtual_stages) {
    arguments.fail("pipeline_model_parallel_layout",
                   fmt::format("has {} parts for {} stages of {} chunks", parts, job.layout.pp, asked));
  }
}

}  // namespace

void read_layout(MapReader& arguments, Job& job) {
  ParallelLayout& layout = job.layout;
  Options& own = options(job);
  arguments.read("world_size", layout.ranks);
  arguments.read("tensor_model_parallel_size", layout.tp);
  arguments.read("pipeline_model_parallel_size", layout.pp);
  arguments.read("context_parallel_size", layout.cp);
  arguments.read("expert_model_parallel_size", layout.ep);
  arguments.read("expert_tensor_parallel_size", own.expert_tp);
  arguments.read("num_distributed_optimizer_instances", own.instances);
  arguments.read("sequence_parallel", layout.sequence_parallel);
  bool has_data_slowest = false;  // megatron/training/initialize.py
  arguments.read("use_tp_pp_dp_mapping", has_data_slowest);
  if (has_data_slowest) {
    layout.order = "tp-cp-ep-pp-dp";
  }
  arguments.read("account_for_embedding_in_pipeline_split", own.embedding_counts_as_layer);
  arguments.read("account_for_loss_in_pipeline_split", own.loss_counts_as_layer);
  arguments.read("decoder_first_pipeline_num_layers", own.layers_of_first_stage);
  arguments.read("decoder_last_pipeline_num_layers", own.layers_of_last_stage);
  read_virtual_stages(arguments, job);
  read_stage_layout(arguments, job);
  job.train.schedule = layout.virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
  arguments.read("microbatch_group_size_per_virtual_pipeline_stage", own.micro_batch_group);
  bool has_batched_p2p = false;
  arguments.read("no_overlap_p2p_communication", has_batched_p2p);
  own.overlaps_p2p = !has_batched_p2p;
  arguments.read("overlap_p2p_communication_warmup_flush", own.overlaps_p2p_at_ends);
  arguments.read("overlap_moe_expert_parallel_comm", own.overlaps_expert_exchange);
  arguments.read("variable_seq_lengths", own.variable_seq_lengths);
  arguments.read("tp_comm_overlap", own.overlaps_tp);
  own.cp_comm_types = read_words(arguments, "cp_comm_type");
  for (const std::string& word : read_words(arguments, "hierarchical_context_parallel_sizes")) {
    const Result<std::int64_t> size = parse_integer(word);
    if (!size || *size < 1) {
      arguments.fail("hierarchical_context_parallel_sizes", "must have integers of at least 1");
      return;
    }
    own.hierarchical_cp.push_back(*size);
  }
}

void read_experts(MapReader& arguments, Job& job) {
  Options& own = options(job);
  arguments.choose<std::string>("moe_token_dispatcher_type",
                                {{"allgather", "allgather"}, {"alltoall", "alltoall"}, {"flex", "flex"}},
                                own.moe_dispatcher);
  arguments.choose<std::string>("moe_flex_dispatcher_backend",
                                {{"deepep", "deepep"}, {"hybridep", "hybridep"}, {"ncclep", "ncclep"}},
                                own.flex_backend);
  bool is_deepep = false;  // an older name
  arguments.read("moe_enable_deepep", is_deepep);
  own.flex_backend = is_deepep ? "deepep" : own.flex_backend;
  if (arguments.has("moe_router_load_balancing_type")) {
    own.balancing = read_words(arguments, "moe_router_load_balancing_type");
    if (own.balancing.empty()) {
      arguments.fail("moe_router_load_balancing_type", "must name a type; none switches it off");
    }
  }
  for (const std::string& type : own.balancing) {
    if (!is_one_of(type, "aux_loss seq_aux_loss global_aux_loss sinkhorn quantile_balancing none")) {
      arguments.fail("moe_router_load_balancing_type",
                     fmt::format("is '{}'; choose from aux_loss, seq_aux_loss, global_aux_loss, sinkhorn, "
                                 "quantile_balancing, none",
                                 shown_text(type)));
    }
  }
  if (const std::vector<std::string> words = read_words(arguments, "moe_aux_loss_coeff"); !words.empty()) {
    own.balancing_coefficients.clear();
    for (const std::string& word : words) {
      const Result<double> coefficient = parse_number(word);
      if (!coefficient) {
        arguments.fail("moe_aux_loss_coeff", fmt::format("must be a number, it is '{}'", shown_text(word)));
        return;
      }
      own.balancing_coefficients.push_back(*coefficient);
    }
  }
  double z_loss_coefficient = 0;
  arguments.read("moe_z_loss_coeff", z_loss_coefficient);
  const ConfigNode* const z_loss = arguments.node("moe_z_loss_coeff");
  own.has_z_loss = z_loss != nullptr && as_number(*z_loss).has_value();
  if (const ConfigNode* const scores = arguments.node("moe_router_score_function")) {
    own.has_sigmoid_scores = scores->text != "softmax";
  }
  arguments.read("moe_router_enable_expert_bias", own.has_expert_bias);
  arguments.choose("moe_router_dtype", {{"fp32", DType::fp32}, {"fp64", DType::fp64}}, own.router_dtype);
  arguments.read("moe_expert_capacity_factor", own.expert_capacity);
  arguments.read("moe_pad_expert_input_to_capacity", own.pads_to_capacity);
  arguments.read("moe_grouped_gemm", own.groups_experts);
  if (own.groups_experts && !own.is_transformer_engine) {
    arguments.skip("moe_grouped_gemm");
  }
  arguments.read("moe_shared_expert_gate", own.has_shared_expert_gate);
  arguments.read("moe_shared_expert_overlap", own.overlaps_shared_expert);
}

}  // namespace commlens::megatron
