// Settings of PyTorch's modules that follow from those of the Trainer, and what has no rules.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/frameworks/huggingface/framework.hpp"
#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/torch/options.hpp"

namespace commlens::huggingface {
namespace {

/// A model that is split by its plan trains in a loop of one's own unless there are settings of the Trainer.
void settle_loop(Job& job) {
  Options& own = options(job);
  if (!own.loop) {
    own.loop = job.layout.tp > 1 ? Loop::plain : Loop::trainer;
  }
}

void settle_ddp(const Job& job, pytorch::Ddp& ddp) {
  const Options& own = options(job);
  ddp = {};
  ddp.is_used = true;
  ddp.bucket_cap = own.ddp.bucket_cap;
  ddp.broadcast_buffers = own.ddp.broadcast_buffers;
  ddp.static_graph = own.ddp.static_graph;
  ddp.accumulation_sync = own.syncs_each_batch;
  // Trainer._build_accelerator_args, transformers trainer.py:749.
  ddp.find_unused_parameters =
      own.ddp.find_unused_parameters.value_or(job.train.recompute == Recompute::none);
}

pytorch::FsdpStrategy strategy_of(Sharding sharding) {
  using Strategy = pytorch::FsdpStrategy;
  switch (sharding) {
    case Sharding::full_shard:
      return Strategy::full_shard;
    case Sharding::grad_op:
      return Strategy::grad_op;
    case Sharding::no_shard:
      return Strategy::no_shard;
    case Sharding::hybrid:
      return Strategy::hybrid;
    case Sharding::hybrid_grad_op:
      return Strategy::hybrid_grad_op;
  }
  return Strategy::full_shard;
}

void settle_fsdp(const Job& job, pytorch::Options& torch) {
  const Options& own = options(job);
  pytorch::Fsdp& fsdp = torch.fsdp;
  fsdp = {};
  fsdp.is_used = true;
  fsdp.version = own.fsdp.version;
  fsdp.is_offloaded = own.fsdp.is_offloaded;
  fsdp.param_dtype = fsdp.reduce_dtype = own.mixed_precision;  // set_mixed_precision
  fsdp.sync_each_micro_batch = own.syncs_each_batch;
  if (own.fsdp.version == 1) {
    fsdp.strategy = strategy_of(own.fsdp.sharding);
    fsdp.use_orig_params = own.fsdp.use_orig_params;
    // cpu_ram_efficient_loading needs it (FullyShardedDataParallelPlugin.__post_init__).
    fsdp.sync_module_states = own.fsdp.sync_module_states || own.fsdp.loads_on_rank0;
    fsdp.prefetches_in_backward = own.fsdp.prefetches_in_backward;
    return;
  }
  using Reshard = pytorch::ReshardAfterForward::Kind;
  fsdp.reshard_after_forward.kind =
      own.fsdp.sharding == Sharding::full_shard ? Reshard::automatic : Reshard::no;
}

/// A config.json and a built-in model have no batch. accelerate's file launches the Trainer; without it the
/// flags decide whether there is one.
void open_batch(Job& job) {
  Options& own = options(job);
  TrainConfig& train = job.train;
  const bool is_stated = own.states_batch || own.model_type.empty() || train.zero_stage > 0 ||
                         job.global_batch > 0 || train.micro_batch != 1 || train.micro_batches != 1;
  if (is_stated) {
    return;
  }
  own.leaves_batch = !own.is_launched;
  train.micro_batch = own.is_launched ? k_default_batch : 0;
  train.micro_batches = own.is_launched ? 1 : 0;
}

/// The Trainer's batch, one sequence of a loop of one's own.
void fill_batch(Job& job) {
  Options& own = options(job);
  TrainConfig& train = job.train;
  const bool is_plain = own.loop ? own.loop == Loop::plain : job.layout.tp > 1;
  const std::int64_t batch = is_plain ? 1 : k_default_batch;
  const std::int64_t tp = std::max<std::int64_t>(job.layout.tp, 1);
  const std::int64_t data_ranks = job.layout.ranks > 0 ? job.layout.ranks / tp : job.layout.dp;
  const bool fits = data_ranks < 1 || job.global_batch / batch % data_ranks == 0;
  const bool is_derived =
      job.global_batch > 0 && (train.micro_batches != 0 || !fits || job.global_batch % batch != 0);
  if (train.micro_batch == 0 && !is_derived) {
    train.micro_batch = batch;
  }
  if (train.micro_batches == 0 && job.global_batch == 0) {
    train.micro_batches = 1;
  }
  own.leaves_batch = false;
}

}  // namespace

void prepare(Job& job) {
  Options& own = options(job);
  if (own.leaves_batch) {
    fill_batch(job);
  }
  const std::int64_t longest = std::exchange(own.longest_sequence, 0);
  if (longest > 0 && job.model.sequence == longest) {
    job.warnings.push_back(
        fmt::format("the sequence is max_position_embeddings, {}; set --seq for another", longest));
  }
}

void adopt(Job& job) {
  open_batch(job);
  if (job.train.zero_stage > 0) {
    job.warnings.push_back(
        fmt::format("{} has no ZeRO: stage {} of the configuration is skipped; use fsdp in its place", k_name,
                    job.train.zero_stage));
    job.train.zero_stage = 0;
  }
}

void settle(Job& job) {
  settle_loop(job);
  Options& own = options(job);
  pytorch::Options& torch = pytorch::options(job);
  torch.release = own.torch_version;
  torch.data_shard =
      own.replicate > 1 && job.layout.dp % own.replicate == 0 ? job.layout.dp / own.replicate : 0;
  torch.ddp = {};
  torch.fsdp = {};
  // Trainer._get_grad_norm takes the norm of gradients that are not clipped too.
  torch.trainer.clip = own.loop == Loop::trainer;
  torch.tensor.init_from_rank0 = false;  // each rank reads its part of the weights
  const bool is_used = own.loop == Loop::trainer && job.layout.dp > 1;
  if (is_used && own.fsdp.is_used) {
    settle_fsdp(job, torch);
    if (own.mixed_precision && own.fsdp.version == 2) {
      job.train.dtype = DType::fp32;  // fsdp2_prepare_model makes trainable parameters fp32
    }
  } else if (is_used) {
    settle_ddp(job, torch.ddp);
  }
  if (own.fsdp.is_used && own.fsdp.checkpoints) {
    set_recompute(job, Recompute::full);
  }
}

std::string layer_class(const Job& job) {
  const ModelConfig& model = job.model;
  const std::string& type = options(job).model_type;
  std::string name;
  if (!type.empty()) {
    bool is_upper = true;
    for (const char letter : type) {
      if (letter == '_') {
        is_upper = true;
      } else {
        name += is_upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(letter))) : letter;
        is_upper = false;
      }
    }
    return name + "DecoderLayer";
  }
  return model.attention_sinks ? "GptOssDecoderLayer" : "";
}

}  // namespace commlens::huggingface
