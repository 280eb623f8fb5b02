// Experts of one micro-batch while tokens of another travel.
#include <algorithm>

#include "commlens/frameworks/megatron/passes.hpp"

namespace commlens::megatron {

void ChunkPasses::route(std::int64_t layer, bool has_gradients) {
  use(Module::router, layer);
  work_.forward({ModulePart::router});
  const RouterPass trained = has_gradients ? RouterPass::with_gradients : RouterPass::without_gradients;
  experts_.route(is_training_ ? trained : RouterPass::evaluation);
  experts_.count_tokens();
}

void ChunkPasses::compute_experts(std::int64_t layer) {
  use(Module::expert_fc1, layer);
  work_.forward({ModulePart::fc1, ModulePart::activation});
  use(Module::expert_fc2, layer);
  work_.forward({ModulePart::fc2});
}

void ChunkPasses::compute_experts_backward(std::int64_t layer) {
  work_.backward({ModulePart::fc2, ModulePart::activation});
  finish(Module::expert_fc2, layer);
  work_.backward({ModulePart::fc1});
  finish(Module::expert_fc1, layer);
}

/// What a layer does before its tokens are dispatched, or before its MLP.
void ChunkPasses::forward_ahead_of_experts(std::int64_t layer) {
  use(Module::ln1, layer);
  work_.forward({ModulePart::ln1});
  if (job_.model.latent.is_used()) {
    forward_latent_attention(layer);
  } else {
    forward_attention(layer);
  }
  use(Module::ln2, layer);
  work_.forward({ModulePart::ln2});
  if (is_moe(layer)) {
    if (options_.shared_expert_hidden > 0) {
      forward_shared(layer);
    }
    route(layer, true);
  }
}

void ChunkPasses::backward_ahead_of_experts(std::int64_t layer) {
  if (is_moe(layer)) {
    work_.backward({ModulePart::router});
    finish(Module::router, layer);
    if (options_.shared_expert_hidden > 0) {
      backward_shared(layer);
    }
  }
  work_.backward({ModulePart::ln2});
  finish(Module::ln2, layer);
  if (job_.model.latent.is_used()) {
    backward_latent_attention(layer);
  } else {
    backward_attention(layer);
  }
  work_.backward({ModulePart::ln1});
  finish(Module::ln1, layer);
}

bool ChunkPasses::can_combine() const {
  return experts_.is_alltoall() && chunk_.mtp_layers == 0 && job_.train.recompute == Recompute::none &&
         !overlaps_shared();
}

/// core/models/common/model_chunk_schedule_plan.py:224, :488
void ChunkPasses::combined(std::int32_t forward, const Hook& before, std::int32_t backward,
                           const Hook& finished) {
  const auto ahead = [&] {
    micro_batch_ = forward;
    hook_ = &before;
    out_.set_phase(Phase::forward, forward);
  };
  const auto back = [&] {
    micro_batch_ = backward;
    hook_ = &finished;
    out_.set_phase(Phase::backward, backward);
  };
  ahead();
  embed();
  back();
  backward_head();
  finish(Module::head, -1);
  work_.backward({ModulePart::final_norm});
  finish(Module::final_norm, -1);
  for (std::int64_t layer = 0; layer < chunk_.layers; ++layer) {
    const std::int64_t other = chunk_.layers - 1 - layer;
    back();
    if (is_moe(other)) {
      experts_.combine_gradient();
    }
    ahead();
    forward_ahead_of_experts(layer);
    back();
    if (is_moe(other)) {
      experts_.run_backward([&] { compute_experts_backward(other); });
    } else {
      backward_mlp(other);
    }
    ahead();
    if (is_moe(layer)) {
      experts_.dispatch();
    }
    back();
    if (is_moe(other)) {
      experts_.dispatch_gradient();
    }
    ahead();
    if (is_moe(layer)) {
      experts_.run([&] { compute_experts(layer); });
      experts_.combine();
    } else {
      forward_mlp(layer, true);
    }
    back();
    backward_ahead_of_experts(other);
  }
  ahead();
  use(Module::final_norm, -1);
  work_.forward({ModulePart::final_norm});
  forward_head();
  back();
  ends_.enter_row_gradient(activation_, "word_embeddings");
  work_.backward({ModulePart::embedding});
  finish(Module::wpe, -1);
  finish(Module::wte, -1);
  hook_ = nullptr;
}

}  // namespace commlens::megatron
