// What ranks of PyTorch's parallel modules hold at their fullest moment. The parts are those that the code
// keeps alive: what autograd saves, what a parameter group of FSDP has gathered, what is on its way.
#include "commlens/frameworks/torch/memory.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "commlens/base/units.hpp"
#include "commlens/frameworks/memory.hpp"
#include "commlens/frameworks/torch/behaviour.hpp"
#include "commlens/frameworks/torch/groups.hpp"
#include "commlens/frameworks/torch/memory_units.hpp"
#include "commlens/frameworks/torch/pipeline.hpp"

namespace commlens::pytorch {
namespace {

double split_over(const Job& job) { return static_cast<double>(job.layout.tp); }
double shared_over(const Job& job) { return job.layout.sequence_parallel ? split_over(job) : 1; }

/// Of one block, per token: what autograd saves of the modules of modules.hpp, in eager mode. The inputs of
/// the norms are split with the sequence; those of the linears behind them are gathered first, and kept so.
LayerActivations block_activations(const Job& job, Recompute recompute) {
  const ModelConfig& model = job.model;
  const auto element = static_cast<double>(size_of(activation_dtype(job)));
  const auto hidden = static_cast<double>(model.hidden);
  if (recompute == Recompute::full) {
    return {.per_token = element * hidden / shared_over(job)};
  }
  const auto queries = static_cast<double>(model.heads * model.head_dim);
  const auto heads = static_cast<double>(model.heads);
  // Queries, keys and values of every head (the few keys are repeated), and the output of attention.
  const double attention = 4 * queries;
  // Gated: both products, the activation and their product; else what the activation takes and gives.
  const double inner = static_cast<double>(model.ffn_hidden) * (model.gated_mlp ? 4 : 2);
  constexpr double sum_of_a_row = 4;  // of fused attention, fp32
  const double scores = attention_of(job) == Attention::eager
                            ? element * heads * static_cast<double>(model.sequence)
                            : sum_of_a_row * heads;
  const double statistics = 2 * 4 * (model.norm_bias ? 2 : 1);  // fp32, of two norms
  return {.per_token = (2 * element * hidden + statistics) / shared_over(job) + 2 * element * hidden +
                       (element * (attention + inner) + scores) / split_over(job)};
}

/// The inputs of the last norm and the head, and the logits of one micro-batch, the fp32 logarithm of their
/// softmax, and the gradient of that. Without loss_parallel every tensor rank has them whole, beside its
/// part.
Bytes logits_of(const Job& job, std::int64_t tokens) {
  const auto element = static_cast<double>(size_of(activation_dtype(job)));
  const bool is_gathered = job.layout.tp > 1 && !options(job).tensor.loss_parallel;
  const auto part = static_cast<double>(ceil_div(job.model.vocab, job.layout.tp));
  const double scores = is_gathered ? static_cast<double>(job.model.vocab) : part;
  const auto hidden = static_cast<double>(job.model.hidden);
  const double per_token =
      element * (hidden / shared_over(job) + hidden + (is_gathered ? part : 0)) + (element + 4 + 4) * scores;
  return bytes_of(per_token * static_cast<double>(tokens));
}

/// A rank and what it does at its fullest.
class RankMemory {
 public:
  RankMemory(const Job& job, std::int64_t rank)
      : job_(job),
        units_(job, rank),
        tokens_(ceil_div(job.train.micro_batch * job.model.sequence, job.layout.cp)),
        passes_(passes_in_flight(pipeline_shape(job), rank)) {}

  MemoryEstimate fullest() const {
    Moment moment = layer_moment();
    if (units_.has_head()) {
      moment = fuller(moment, head_moment());
    }
    return with_moment(units_.states(), fuller(moment, end_moment()));
  }

 private:
  Bytes activations() const {
    const LayerActivations block = block_activations(job_, job_.train.recompute);
    const auto layers = static_cast<double>(units_.blocks());
    // A stage keeps what it sent until its gradient has come.
    const double sent =
        job_.layout.pp == 1
            ? 0
            : static_cast<double>(size_of(activation_dtype(job_)) * job_.model.hidden) / shared_over(job_);
    return bytes_of((block.per_token * layers + sent) * static_cast<double>(tokens_ * passes_));
  }
  Bytes logits(std::int64_t micro_batches) const { return logits_of(job_, tokens_) * micro_batches; }
  bool is_gpipe() const {
    return job_.layout.pp > 1 && options(job_).pipeline.schedule == PipelineSchedule::gpipe;
  }

  /// Backward of the head begins.
  Moment head_moment() const {
    return {.activations = activations(),
            .logits = logits(is_gpipe() ? job_.train.micro_batches : 1),
            .buffers = units_.in_use(units_.head())};
  }
  /// Backward of the last block begins.
  Moment layer_moment() const {
    Moment moment{.activations = activations(), .buffers = units_.in_use(units_.last_block())};
    if (units_.has_head() && is_gpipe()) {
      moment.logits = logits(job_.train.micro_batches - 1);
    }
    if (job_.train.recompute == Recompute::full) {
      moment.working = block_activations(job_, Recompute::none).of(tokens_);
    }
    return moment;
  }
  /// The root's gradients are reduced after all others.
  Moment end_moment() const { return {.buffers = units_.at_end()}; }

  const Job& job_;
  Units units_;
  std::int64_t tokens_;  // of a micro-batch
  std::int64_t passes_;
};

/// DDP of 1.13 takes models of all kinds, and is estimated as other frameworks are.
MemoryEstimate of_stage(const Job& job, std::int64_t stage) {
  return is_of_1_13(job) ? common_memory_of_stage(job, stage) : RankMemory(job, stage).fullest();
}

/// Buckets are copies of the gradients. Of 1.13, whose states are those of all frameworks.
Bytes buckets(const Job& job, const HeldStage& stage, std::int64_t) {
  return job.layout.dp > 1 ? states(stage.all, size_of(job.train.dtype), job.layout, false) : Bytes{};
}

}  // namespace

MemoryRules memory_rules() { return {.buffers = buckets, .of_stage = of_stage}; }

}  // namespace commlens::pytorch
