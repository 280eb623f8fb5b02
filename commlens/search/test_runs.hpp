#pragma once
#include "commlens/search/space.hpp"

/// Runs whose layouts tests search.
namespace commlens::test_support {

inline RunHardware test_device(std::int64_t ranks) {
  RunHardware hardware;
  hardware.gpu = "H100";
  hardware.memory_gb = 80;
  hardware.peak = 989e12;
  hardware.memory_bandwidth = 3350e9;
  hardware.processors = 132;
  hardware.link = 450e9;
  hardware.network = 50e9;
  hardware.domain = ranks < 8 ? ranks : 8;
  hardware.node = 8;
  return hardware;
}

/// 24 layers of 2,048.
inline TrainingRun small_gpt_run(std::int64_t ranks, std::int64_t sequences) {
  TrainingRun run;
  run.family = "H100, nemo";
  run.model.name = "GPT 1.3B";
  run.model.layers = 24;
  run.model.hidden = 2048;
  run.model.heads = run.model.kv_heads = 16;
  run.model.head_dim = 128;
  run.model.ffn = 8192;
  run.model.vocab = 51'200;
  run.model.sequence = 2048;
  run.hardware = test_device(ranks);
  run.layout.ranks = ranks;
  run.layout.global_batch = sequences;
  return run;
}

/// Twelve layers, the first two without experts, eight experts, latent attention aside.
inline TrainingRun mixture_run(std::int64_t ranks, std::int64_t sequences) {
  TrainingRun run = small_gpt_run(ranks, sequences);
  run.model.name = "mixture";
  run.model.layers = 12;
  run.model.kv_heads = 4;
  run.model.is_gated = true;
  run.model.experts = 8;
  run.model.top_k = 2;
  run.model.expert_ffn = 1024;
  run.model.shared_experts = 1;
  run.model.dense_layers = 2;
  return run;
}

inline SearchSpace whole_space() {
  SearchSpace space;
  space.kinds = {DataParallelKind::replicated, DataParallelKind::optimizer, DataParallelKind::owners,
                 DataParallelKind::sharded, DataParallelKind::sharded_until_backward};
  space.has_every_shard_group = true;
  space.has_separate_overlaps = true;
  return space;
}

}  // namespace commlens::test_support
