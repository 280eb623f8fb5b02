// What a rank of torchtitan's Trainer holds at its fullest moment.
#include "commlens/frameworks/torchtitan/memory.hpp"

#include <algorithm>
#include <vector>

#include "commlens/frameworks/torch/memory_units.hpp"
#include "commlens/frameworks/torch/pipeline.hpp"
#include "commlens/frameworks/torchtitan/memory_activations.hpp"
#include "commlens/frameworks/torchtitan/modules.hpp"

namespace commlens::torchtitan {
namespace {

pytorch::PipelineShape shape_of(const Job& job) {
  pytorch::PipelineShape shape = pytorch::pipeline_shape(job);
  shape.micro_batches /= options(job).accumulation_steps;
  return shape;
}

std::vector<pytorch::HeldUnits> held_units(const Job& job, std::int64_t rank) {
  const pytorch::PipelineShape shape = shape_of(job);
  const std::int64_t stages = job.layout.pp == 1 ? 1 : shape.stages();
  const std::vector<std::int64_t> own =
      job.layout.pp == 1 ? std::vector<std::int64_t>{0} : shape.stages_of(rank);
  const std::int64_t shard_ranks = job.layout.dp / options(job).replicate * job.layout.cp;
  const Meshes meshes{.dense = {.shard_ranks = shard_ranks},
                      .experts = {.shard_ranks = expert_shard_ranks(job)}};
  std::vector<pytorch::HeldUnits> all;
  for (const std::int64_t stage : own) {
    pytorch::HeldUnits held{.modules = stage_modules(job, stage, stages), .has_head = stage + 1 == stages};
    held.units = shard_units(job, meshes, held.modules);
    held.loss_chunks = held.has_head ? options(job).loss_chunks : 0;
    // A table that is also the head has gradients from the first backward pass to the last.
    held.units.front().is_root = held.has_head && held.loss_chunks == 0 && job.model.tied_embeddings;
    all.push_back(std::move(held));
  }
  return all;
}

/// A rank and what it does at its fullest.
class RankMemory {
 public:
  RankMemory(const Job& job, std::int64_t rank)
      : job_(job),
        shape_(shape_of(job)),
        rank_(rank),
        stages_(held_units(job, rank)),
        units_(job, stages_),
        tokens_(job.train.micro_batch * job.model.sequence / job.layout.cp),
        activations_(activations()) {}

  MemoryEstimate fullest() const {
    Moment moment = layer_moment();
    if (units_.blocks() > 1) {
      moment = fuller(moment, next_layer_moment());
    }
    if (units_.has_head()) {
      moment = fuller(moment, head_moment());
    }
    if (units_.has_head() && options(job_).loss_chunks > 0) {
      moment = fuller(moment, reduced_head_moment());
    }
    return with_moment(units_.states(), fuller(moment, {.buffers = units_.at_end()}));
  }

 private:
  /// Of a block of a stage, the sum over its blocks; of the stage that has most.
  Bytes activations() const {
    Bytes most;
    for (const pytorch::HeldUnits& stage : stages_) {
      Bytes sum = sent();
      for (const pytorch::Module& module : stage.modules) {
        if (module.kind == pytorch::Module::Kind::block) {
          sum += block_activations(job_, module.layer, job_.train.recompute).of(tokens_);
        }
      }
      most = std::max(most, sum);
    }
    return most * pytorch::passes_in_flight(shape_, rank_);
  }
  /// A stage keeps what it sent until its gradient has come.
  Bytes sent() const {
    return job_.layout.pp == 1 ? Bytes{} : block_activations(job_, 0, Recompute::full).of(tokens_);
  }
  /// Micro-batches whose loss is computed while others wait for their backward pass.
  std::int64_t waiting() const {
    return job_.layout.pp > 1 && shape_.schedule == pytorch::PipelineSchedule::gpipe
               ? shape_.micro_batches - 1
               : 0;
  }

  Moment head_moment() const {
    const LossActivations loss = loss_activations(job_, tokens_);
    const bool is_chunked = options(job_).loss_chunks > 0;
    return {.activations = activations_,
            .logits = loss.at_work + loss.waiting * waiting(),
            .buffers = is_chunked ? units_.in_chunks() : units_.in_use(units_.head())};
  }
  /// The sum of the chunks' gradients is reduced.
  Moment reduced_head_moment() const {
    return {.activations = activations_,
            .logits = after_loss(job_, tokens_) * (1 + waiting()),
            .buffers = units_.after_chunks()};
  }
  /// Backward of the last block begins, once it is computed again as far as it was not saved.
  Moment layer_moment() const { return block_moment(units_.last_block(), activations_); }
  /// The block before it: gradients of the last one are on their way, its activations are gone.
  Moment next_layer_moment() const {
    const std::int64_t layer = job_.model.layers - 1;
    const Bytes done = block_activations(job_, layer, job_.train.recompute).of(tokens_);
    return block_moment(units_.last_block() - 1, activations_ - done);
  }
  Moment block_moment(std::size_t unit, Bytes activations) const {
    const std::int64_t layer = job_.model.layers - 1;
    const Bytes all = block_activations(job_, layer, Recompute::none).of(tokens_);
    const Bytes kept = block_activations(job_, layer, job_.train.recompute).of(tokens_);
    Moment moment{
        .activations = activations,
        .buffers = units_.in_use(unit) + bytes_of(exchanged_tokens(job_) * static_cast<double>(tokens_)),
        .working = all - kept};
    if (units_.has_head()) {
      moment.logits = loss_activations(job_, tokens_).waiting * waiting();
    }
    return moment;
  }

  const Job& job_;
  pytorch::PipelineShape shape_;
  std::int64_t rank_;
  std::vector<pytorch::HeldUnits> stages_;
  pytorch::Units units_;
  std::int64_t tokens_;  // of a micro-batch
  Bytes activations_;
};

MemoryEstimate of_stage(const Job& job, std::int64_t stage) { return RankMemory(job, stage).fullest(); }

}  // namespace

MemoryRules memory_rules() { return {.of_stage = of_stage}; }

}  // namespace commlens::torchtitan
