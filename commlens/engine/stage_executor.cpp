#include "commlens/engine/stage_executor.hpp"

#include <utility>

#include "commlens/base/check.hpp"

namespace commlens::engine {
namespace {

/// Times the number of stages: more micro-batches of a chunk than any 1F1B schedule has between forward and
/// backward, so that waiting for a gradient sent that long ago cannot block. Under GPipe the previous stage
/// only receives at that point.
constexpr std::int64_t k_most_under_way = 4;

GroupRank neighbour(std::int64_t stage, std::int64_t step, std::int64_t stages) {
  return {(stage + step + stages) % stages};
}

}  // namespace

StageExecutor::StageExecutor(const Job& job, const LayerContext& layers, DataParallel& parameters,
                             RankGroups& groups, Recorder* recorder)
    : job_(job),
      layers_(layers),
      parameters_(parameters),
      groups_(groups),
      recorder_(recorder),
      stage_(groups.where.pipeline),
      stages_(job.layout.pp),
      chunks_(static_cast<std::int64_t>(parameters.chunk_count())) {}

std::vector<ComputeStep> StageExecutor::order() const {
  const std::int64_t micro_batches = job_.train.micro_batches;
  if (chunks_ > 1) {
    return interleaved_1f1b(stage_, stages_, chunks_, micro_batches);
  }
  if (stages_ > 1 && job_.train.schedule == Schedule::gpipe) {
    return gpipe(micro_batches);
  }
  return one_f_one_b(stage_, stages_, micro_batches);
}

double StageExecutor::run(const std::vector<MicroBatch>& batches, double loss_scale) {
  loss_ = 0;
  loss_scale_ = loss_scale;
  passages_.clear();
  for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
    passages_.emplace_back(batches.size());
  }
  for (const ComputeStep& step : order()) {
    const MicroBatch& batch = batches[static_cast<std::size_t>(step.micro_batch)];
    if (step.is_forward) {
      forward(step.micro_batch, step.chunk, batch);
    } else {
      backward(step.micro_batch, step.chunk, batch, step.micro_batch + 1 == job_.train.micro_batches);
    }
  }
  for (std::vector<Passage>& of_chunk : passages_) {
    for (Passage& passage : of_chunk) {
      passage.sent.wait();
      passage.sent_gradient.wait();
    }
  }
  return loss_ / static_cast<double>(job_.train.micro_batches);
}

void StageExecutor::set_phase(Phase phase, std::int64_t micro_batch) {
  if (recorder_ != nullptr) {
    recorder_->set_phase(phase, static_cast<std::int32_t>(micro_batch));
  }
}

torch::Tensor StageExecutor::receive(Communicator& group, std::int64_t from, std::string_view tag) const {
  const std::int64_t split = layers_.sequence_parallel ? job_.layout.tp : 1;
  const torch::Tensor tensor = torch::empty(
      {job_.train.micro_batch, job_.model.sequence / split, job_.model.hidden},
      torch::TensorOptions().dtype(scalar_type_of(job_.train.dtype)).device(layers_.causal_mask.device()));
  recv(group, tensor, {from}, tag);
  return tensor;
}

torch::Tensor StageExecutor::run_module(std::int64_t chunk, std::size_t module, const torch::Tensor& input,
                                        const MicroBatch& batch) {
  const auto index = static_cast<std::size_t>(chunk);
  const std::vector<torch::Tensor> parameters = parameters_.parameters(index, module);
  switch (parameters_.chunk(index).modules[module].role) {
    case ModuleRole::embedding:
      return embedding_forward(layers_, parameters, batch.tokens);
    case ModuleRole::block:
      return block_forward(layers_, parameters, input);
    case ModuleRole::head:
      return head_forward(layers_, parameters, input, batch.targets);
  }
  return {};
}

/// The part of its input that a recomputed block keeps: all, or this tensor rank's part.
torch::Tensor StageExecutor::kept_input(const torch::Tensor& input) const {
  const std::int64_t ranks = groups_.tp->size();
  if (!job_.train.partition_activations || ranks == 1) {
    return input;
  }
  return input.reshape({ranks, -1}).select(0, groups_.tp->rank().value).clone();
}

torch::Tensor StageExecutor::whole_input(const torch::Tensor& kept) const {
  if (!job_.train.partition_activations || groups_.tp->size() == 1) {
    return kept;
  }
  torch::Tensor whole =
      torch::empty({job_.train.micro_batch, job_.model.sequence, job_.model.hidden}, kept.options());
  all_gather(*groups_.tp, kept, whole, "block.input", Completion::now);
  return whole;
}

void StageExecutor::forward(std::int64_t micro_batch, std::int64_t chunk, const MicroBatch& batch) {
  set_phase(Phase::forward, micro_batch);
  torch::Tensor activation;
  if (!is_first_part(chunk)) {
    activation = receive(*groups_.forward, neighbour(stage_, -1, stages_).value, "activations");
  }
  const auto index = static_cast<std::size_t>(chunk);
  const std::vector<HeldModule>& modules = parameters_.chunk(index).modules;
  Passage& passage = passages_[index][static_cast<std::size_t>(micro_batch)];
  for (std::size_t module = 0; module < modules.size(); ++module) {
    parameters_.before_forward(index, module);
    const bool runs_again =
        job_.train.recompute == Recompute::full && modules[module].role == ModuleRole::block;
    Kept kept;
    if (activation.defined()) {
      kept.input = runs_again ? kept_input(activation.detach()) : activation.detach().requires_grad_(true);
    }
    torch::Tensor output;
    if (runs_again) {
      const torch::NoGradGuard no_grad;
      output = run_module(chunk, module, activation.detach(), batch);
    } else {
      output = run_module(chunk, module, kept.input, batch);
      kept.output = output;
    }
    passage.kept.push_back(std::move(kept));
    activation = output;
    const bool stays = stages_ == 1 && module + 1 == modules.size();
    parameters_.after_forward(index, module, stays);
  }
  if (is_last_part(chunk)) {
    loss_ += activation.item<double>();
    return;
  }
  passage.sent =
      send(*groups_.forward, activation.detach().contiguous(), neighbour(stage_, 1, stages_), "activations");
}

/// The forward pass of a block once more, from the input it kept.
torch::Tensor StageExecutor::run_again(std::int64_t chunk, std::size_t module, Kept& kept,
                                       const MicroBatch& batch) {
  kept.input = whole_input(kept.input).detach().requires_grad_(true);
  return run_module(chunk, module, kept.input, batch);
}

void StageExecutor::backward(std::int64_t micro_batch, std::int64_t chunk, const MicroBatch& batch,
                             bool is_last) {
  set_phase(Phase::backward, micro_batch);
  torch::Tensor gradient;
  if (!is_last_part(chunk)) {
    gradient = receive(*groups_.backward, neighbour(stage_, 1, stages_).value, "activation.gradients");
  }
  const auto index = static_cast<std::size_t>(chunk);
  Passage& passage = passages_[index][static_cast<std::size_t>(micro_batch)];
  passage.sent.wait();  // the next stage has it: the gradient came back
  for (std::size_t module = passage.kept.size(); module-- > 0;) {
    parameters_.before_backward(index, module);
    Kept& kept = passage.kept[module];
    if (!kept.output.defined()) {
      set_phase(Phase::recompute, micro_batch);
      kept.output = run_again(chunk, module, kept, batch);
      set_phase(Phase::backward, micro_batch);
    }
    if (!gradient.defined()) {
      gradient = torch::full_like(kept.output, loss_scale_ / static_cast<double>(job_.train.micro_batches));
    }
    torch::autograd::backward({kept.output}, {gradient});
    gradient = kept.input.defined() ? kept.input.grad() : torch::Tensor();
    kept = Kept{};
    parameters_.after_backward(index, module, is_last);
  }
  parameters_.end_backward(index);
  if (!is_first_part(chunk)) {
    COMMLENS_CHECK(gradient.defined(), "a stage that received activations has their gradient");
    passage.sent_gradient = send(*groups_.backward, gradient.contiguous(), neighbour(stage_, -1, stages_),
                                 "activation.gradients");
    if (const std::int64_t received = micro_batch - k_most_under_way * stages_; received >= 0) {
      passages_[index][static_cast<std::size_t>(received)].sent_gradient.wait();
    }
  }
}

}  // namespace commlens::engine
