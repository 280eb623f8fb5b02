#include "commlens/frameworks/megatron/passes.hpp"

#include <algorithm>
#include <utility>

#include "commlens/frameworks/megatron/source.hpp"

namespace commlens::megatron {
namespace {

const Rule k_max_of_logits{"megatron.cross_entropy_max",
                           k_new_source<"core/tensor_parallel/cross_entropy.py:130">};
const Rule k_target_logit{"megatron.cross_entropy_target",
                          k_new_source<"core/tensor_parallel/cross_entropy.py:146">};
const Rule k_sum_of_exponents{"megatron.cross_entropy_sum",
                              k_new_source<"core/tensor_parallel/cross_entropy.py:150">};
const Rule k_fused_sums{"megatron.cross_entropy_sums",
                        k_new_source<"core/fusions/fused_cross_entropy.py:112">};
const Rule k_gather_losses{"megatron.cross_entropy_gather",
                           k_new_source<"core/extensions/transformer_engine.py te_parallel_cross_entropy">};
const Rule k_saved_input{"megatron.distributed_saved_activation",
                         k_new_source<"core/tensor_parallel/random.py:602">};
const Rule k_accuracy{"megatron.mtp_accuracy",
                      k_new_source<"core/transformer/multi_token_prediction.py:502">};

using SharedExperts = Behaviour::SharedExperts;

}  // namespace

ChunkPasses::ChunkPasses(ProgramBuilder& out, const MegatronGroups& groups, const Job& job, ChunkLayout chunk)
    : out_(out),
      groups_(groups),
      job_(job),
      options_(options(job)),
      behaviour_(behaviour(job)),
      chunk_(chunk),
      tensor_(out, groups, job, options_.overlaps_tp),
      ends_(out, groups, job),
      context_(out, groups, job),
      experts_(out, groups, job),
      shares_(job),
      work_(out),
      positions_(job.train.micro_batch * job.model.sequence / job.layout.cp),
      activation_(positions_ * job.model.hidden) {}

void ChunkPasses::use(Module module, std::int64_t layer) const {
  if (hook_ != nullptr && *hook_) {
    (*hook_)({module, layer});
  }
}
void ChunkPasses::finish(Module module, std::int64_t layer) const { use(module, layer); }

std::function<void(Pass)> ChunkPasses::kernels(ModulePart part) {
  return [this, part](Pass pass) { work_.write(part, pass); };
}

bool ChunkPasses::recomputes_all(std::int64_t layer) const {
  if (job_.train.recompute != Recompute::full || layer >= chunk_.layers) {
    return job_.train.recompute == Recompute::full;
  }
  return options_.recompute_method != "block" || layer < options_.recompute_num_layers;
}

bool ChunkPasses::recomputes(std::string_view module) const {
  const std::vector<std::string>& modules = options_.recompute_modules;
  return job_.train.recompute == Recompute::selective &&
         std::find(modules.begin(), modules.end(), module) != modules.end();
}

bool ChunkPasses::is_moe(std::int64_t layer) const {
  return is_moe_layer(job_, layer < chunk_.layers ? chunk_.first_layer + layer : job_.model.layers);
}

bool ChunkPasses::overlaps_shared() const {
  return options_.overlaps_shared_expert && options_.shared_expert_hidden > 0;
}

bool ChunkPasses::runs_shared(SharedExperts place) const {
  return options_.shared_expert_hidden > 0 && !overlaps_shared() && behaviour_.shared_experts == place;
}

void ChunkPasses::forward(std::int32_t micro_batch, const Hook& before) {
  micro_batch_ = micro_batch;
  hook_ = &before;
  out_.set_phase(Phase::forward, micro_batch);
  if (chunk_.has_embedding) {
    embed();
  }
  for (std::int64_t layer = 0; layer < chunk_.layers; ++layer) {
    forward_layer(layer, is_training_ && !recomputes_all(layer));
  }
  if (chunk_.has_final_norm) {
    use(Module::final_norm, -1);
    work_.forward({ModulePart::final_norm});
  }
  for (std::int64_t mtp = 0; mtp < chunk_.mtp_layers; ++mtp) {
    forward_mtp(chunk_.layers + mtp);
  }
  if (chunk_.has_loss) {
    for (std::int64_t mtp = 0; mtp < chunk_.mtp_layers; ++mtp) {
      forward_head();
      measure_accuracy();
    }
    forward_head();
  }
  hook_ = nullptr;
}

void ChunkPasses::evaluate(std::int32_t micro_batch) {
  const Hook none;
  is_training_ = false;
  forward(micro_batch, none);
  is_training_ = true;
}

/// With learned positions the whole is reduced and each rank takes its part.
void ChunkPasses::embed() {
  use(Module::wte, -1);
  work_.forward({ModulePart::embedding});
  if (job_.model.positions == Positions::learned) {
    ends_.reduce(activation_, "word_embeddings");
    use(Module::wpe, -1);
  } else {
    ends_.leave_row(activation_, "word_embeddings");
  }
}

void ChunkPasses::forward_layer(std::int64_t layer, bool has_gradients) {
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
    forward_experts(layer, has_gradients && !recomputes("moe"));
  } else {
    forward_mlp(layer, has_gradients);
  }
}

void ChunkPasses::forward_attention(std::int64_t layer) {
  use(Module::qkv, layer);
  tensor_.enter_column(activation_, "self_attention.linear_qkv");
  work_.forward({ModulePart::qkv});
  if (job_.model.kv_heads < shares_.tp) {
    tensor_.gather_columns(positions_ * shares_.qkv_width, "query groups");
  }
  if (job_.model.qk_norm) {
    use(Module::q_norm, layer);
    use(Module::k_norm, layer);
  }
  forward_scores(layer);
  use(Module::proj, layer);
  work_.forward({ModulePart::proj});
  tensor_.leave_row(activation_, "self_attention.linear_proj");
}

void ChunkPasses::forward_scores(std::int64_t layer) {
  context_.forward(chunk_.first_layer + layer);
  work_.forward({ModulePart::attention});
}

/// Selective recomputation of attention repeats its messages.
void ChunkPasses::backward_scores(std::int64_t layer) {
  if (recomputes("core_attn")) {
    out_.set_phase(Phase::recompute, micro_batch_);
    context_.forward(chunk_.first_layer + layer);
    out_.set_phase(Phase::backward, micro_batch_);
  }
  work_.recompute_scores();
  context_.backward(chunk_.first_layer + layer);
  work_.backward({ModulePart::attention});
}

void ChunkPasses::forward_mlp(std::int64_t layer, bool /*has_gradients*/) {
  use(Module::fc1, layer);
  tensor_.enter_column(activation_, "mlp.linear_fc1");
  work_.forward({ModulePart::fc1, ModulePart::activation});
  use(Module::fc2, layer);
  work_.forward({ModulePart::fc2});
  tensor_.leave_row(activation_, "mlp.linear_fc2");
}

void ChunkPasses::forward_shared(std::int64_t layer) {
  use(Module::shared_gate, layer);
  use(Module::shared_fc1, layer);
  tensor_.enter_column(activation_, "shared_experts.linear_fc1");
  use(Module::shared_fc2, layer);
  tensor_.leave_row(activation_, "shared_experts.linear_fc2");
}

void ChunkPasses::forward_experts(std::int64_t layer, bool has_gradients) {
  if (runs_shared(SharedExperts::ahead)) {
    forward_shared(layer);
  }
  route(layer, has_gradients);
  if (overlaps_shared()) {
    use(Module::shared_fc1, layer);
    tensor_.enter_column(activation_, "shared_experts.linear_fc1");
  }
  const auto between = [&] {
    if (runs_shared(SharedExperts::between)) {
      forward_shared(layer);
    }
  };
  experts_.forward([&] { compute_experts(layer); }, between);
  if (runs_shared(SharedExperts::behind)) {
    forward_shared(layer);
  }
  if (overlaps_shared()) {
    use(Module::shared_fc2, layer);
    tensor_.leave_row(activation_, "shared_experts.linear_fc2");
  }
}

void ChunkPasses::forward_head() {
  use(Module::head, -1);
  ends_.enter_column(activation_, "output_layer");
  work_.forward({ModulePart::head});
  cross_entropy();
}

/// In fp32 whatever the dtype of the model.
void ChunkPasses::cross_entropy() {
  switch (options_.cross_entropy) {
    case CrossEntropy::unfused:
      out_.set_reduction(Reduction::max);
      out_.all_reduce(groups_.tp, {positions_}, DType::fp32, k_max_of_logits, "cross entropy");
      out_.set_reduction(Reduction::sum);
      work_.forward({ModulePart::loss});
      out_.all_reduce(groups_.tp, {positions_}, DType::fp32, k_target_logit, "cross entropy");
      out_.all_reduce(groups_.tp, {positions_}, DType::fp32, k_sum_of_exponents, "cross entropy");
      break;
    case CrossEntropy::native:
      out_.set_reduction(Reduction::max);
      out_.all_reduce(groups_.tp, {positions_}, DType::fp32, k_max_of_logits, "cross entropy");
      out_.set_reduction(Reduction::sum);
      work_.forward({ModulePart::loss});
      out_.all_reduce(groups_.tp, {2 * positions_}, DType::fp32, k_fused_sums, "cross entropy");
      break;
    case CrossEntropy::transformer_engine:
      work_.forward({ModulePart::loss});
      if (tensor_.is_split()) {
        out_.all_gather(groups_.tp, {3 * positions_}, DType::fp32, k_gather_losses, "cross entropy");
      }
      break;
  }
}

void ChunkPasses::measure_accuracy() {
  if (behaviour_.measures_mtp_accuracy && tensor_.is_split()) {
    out_.all_gather(groups_.tp, {positions_}, job_.train.dtype, k_accuracy, "best logit");
    out_.all_gather(groups_.tp, {positions_}, DType::int64, k_accuracy, "best token");
  }
}

void ChunkPasses::forward_mtp(std::int64_t layer) {
  embed();
  use(Module::mtp_embedding_norm, layer);
  use(Module::mtp_hidden_norm, layer);
  forward_mtp_layer(layer, is_training_ && !recomputes_all(layer));
  use(Module::mtp_final_norm, layer);
}

/// What is computed again as a whole.
void ChunkPasses::forward_mtp_layer(std::int64_t layer, bool has_gradients) {
  use(Module::mtp_proj, layer);
  tensor_.enter_column(2 * activation_, "mtp.eh_proj");
  tensor_.gather_columns(activation_, "mtp.eh_proj");
  forward_layer(layer, has_gradients);
}

void ChunkPasses::recompute(std::int64_t first, std::int64_t count) {
  const Hook* const finished = std::exchange(hook_, nullptr);
  out_.set_phase(Phase::recompute, micro_batch_);
  if (job_.train.partition_activations && tensor_.is_split() && !tensor_.sequence_parallel()) {
    out_.all_gather(groups_.tp, {activation_ / tensor_.ranks()}, job_.train.dtype, k_saved_input,
                    "checkpointed layer input");
  }
  for (std::int64_t layer = first; layer < first + count; ++layer) {
    if (layer < chunk_.layers) {
      forward_layer(layer, true);
    } else {
      forward_mtp_layer(layer, true);
    }
  }
  out_.set_phase(Phase::backward, micro_batch_);
  hook_ = finished;
}

void ChunkPasses::backward(std::int32_t micro_batch, const Hook& finished) {
  micro_batch_ = micro_batch;
  hook_ = &finished;
  out_.set_phase(Phase::backward, micro_batch);
  if (chunk_.has_loss) {
    backward_head();
    for (std::int64_t mtp = 0; mtp < chunk_.mtp_layers; ++mtp) {
      backward_head();
    }
    finish(Module::head, -1);
  }
  for (std::int64_t mtp = chunk_.mtp_layers - 1; mtp >= 0; --mtp) {
    backward_mtp(chunk_.layers + mtp);
  }
  if (chunk_.has_final_norm) {
    work_.backward({ModulePart::final_norm});
    finish(Module::final_norm, -1);
  }
  backward_layers();
  if (chunk_.has_embedding) {
    ends_.enter_row_gradient(activation_, "word_embeddings");
    work_.backward({ModulePart::embedding});
  }
  if (chunk_.has_embedding || chunk_.mtp_layers > 0) {
    finish(Module::wpe, -1);
    finish(Module::wte, -1);
  }
  hook_ = nullptr;
}

/// What is computed again comes in segments, each ahead of its backward pass.
void ChunkPasses::backward_layers() {
  const std::int64_t segment = options_.recompute_method == "block" ? 1 : options_.recompute_num_layers;
  for (std::int64_t layer = chunk_.layers - 1; layer >= 0; --layer) {
    const bool ends_segment = layer + 1 == chunk_.layers || (layer + 1) % segment == 0;
    if (recomputes_all(layer) && (segment == 1 || ends_segment)) {
      const std::int64_t first = layer / segment * segment;
      recompute(first, layer - first + 1);
    }
    backward_layer(layer);
  }
}

void ChunkPasses::backward_head() {
  work_.backward({ModulePart::loss});
  ends_.column_gradient(activation_, "output_layer", kernels(ModulePart::head));
}

void ChunkPasses::backward_layer(std::int64_t layer) {
  if (is_moe(layer)) {
    backward_experts(layer);
  } else {
    backward_mlp(layer);
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

void ChunkPasses::backward_mlp(std::int64_t layer) {
  if (recomputes("mlp")) {
    const Hook* const finished = std::exchange(hook_, nullptr);
    out_.set_phase(Phase::recompute, micro_batch_);
    forward_mlp(layer, true);
    out_.set_phase(Phase::backward, micro_batch_);
    hook_ = finished;
  }
  tensor_.enter_row_gradient(activation_, "mlp.linear_fc2");
  work_.backward({ModulePart::fc2, ModulePart::activation});
  finish(Module::fc2, layer);
  tensor_.column_gradient(activation_, "mlp.linear_fc1", kernels(ModulePart::fc1));
  finish(Module::fc1, layer);
}

void ChunkPasses::backward_shared(std::int64_t layer) {
  if (recomputes("shared_experts")) {
    const Hook* const finished = std::exchange(hook_, nullptr);
    out_.set_phase(Phase::recompute, micro_batch_);
    forward_shared(layer);
    out_.set_phase(Phase::backward, micro_batch_);
    hook_ = finished;
  }
  tensor_.enter_row_gradient(activation_, "shared_experts.linear_fc2");
  finish(Module::shared_fc2, layer);
  tensor_.column_gradient(activation_, "shared_experts.linear_fc1", [](Pass) {});
  finish(Module::shared_fc1, layer);
  finish(Module::shared_gate, layer);
}

void ChunkPasses::backward_experts(std::int64_t layer) {
  if (recomputes("moe")) {
    const Hook* const finished = std::exchange(hook_, nullptr);
    out_.set_phase(Phase::recompute, micro_batch_);
    forward_experts(layer, true);
    out_.set_phase(Phase::backward, micro_batch_);
    hook_ = finished;
  }
  if (overlaps_shared()) {
    tensor_.enter_row_gradient(activation_, "shared_experts.linear_fc2");
    finish(Module::shared_fc2, layer);
  }
  if (runs_shared(SharedExperts::behind)) {
    backward_shared(layer);
  }
  const auto between = [&] {
    if (runs_shared(SharedExperts::between)) {
      backward_shared(layer);
    }
  };
  experts_.backward([&] { compute_experts_backward(layer); }, between);
  work_.backward({ModulePart::router});
  experts_.route_gradient();
  finish(Module::router, layer);
  if (overlaps_shared()) {
    // The gathered input is kept.
    tensor_.scatter_sequence_gradient(activation_, "shared_experts.linear_fc1");
    finish(Module::shared_fc1, layer);
    finish(Module::shared_gate, layer);
  } else if (runs_shared(SharedExperts::ahead)) {
    backward_shared(layer);
  }
}

void ChunkPasses::backward_attention(std::int64_t layer) {
  tensor_.enter_row_gradient(activation_, "self_attention.linear_proj");
  work_.backward({ModulePart::proj});
  finish(Module::proj, layer);
  backward_scores(layer);
  if (job_.model.qk_norm) {
    finish(Module::k_norm, layer);
    finish(Module::q_norm, layer);
  }
  if (job_.model.kv_heads < shares_.tp) {
    tensor_.scatter_columns_gradient(positions_ * shares_.qkv_width, "query groups");
  }
  tensor_.column_gradient(activation_, "self_attention.linear_qkv", kernels(ModulePart::qkv));
  finish(Module::qkv, layer);
}

void ChunkPasses::backward_mtp(std::int64_t layer) {
  finish(Module::mtp_final_norm, layer);
  if (recomputes_all(layer)) {
    recompute(layer, 1);
  }
  backward_layer(layer);
  tensor_.gather_sequence(activation_, "mtp.eh_proj");
  tensor_.column_gradient(2 * activation_, "mtp.eh_proj", [](Pass) {});
  finish(Module::mtp_proj, layer);
  finish(Module::mtp_hidden_norm, layer);
  finish(Module::mtp_embedding_norm, layer);
  ends_.enter_row_gradient(activation_, "word_embeddings");
}

}  // namespace commlens::megatron
