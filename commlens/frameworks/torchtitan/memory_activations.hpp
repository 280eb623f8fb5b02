#pragma once
#include "commlens/frameworks/memory_parts.hpp"
#include "commlens/model/job.hpp"

namespace commlens::torchtitan {

/// What a block keeps from forward to backward of each token of a rank (of those of its data and context
/// rank), by the modules of torchtitan 0.3.0 models/common: with recomputation none what autograd saves on
/// GPUs, where a norm is one kernel; selective: its input and what SelectiveAC saves, the outputs of
/// attention, top-k choices and every second linear (distributed/activation_checkpoint.py:28, :250); full:
/// its input. Of a job without memory of its own for messages: what is gathered is gathered again.
LayerActivations block_activations(const Job& job, std::int64_t layer, Recompute recompute);

/// Bytes a token, while experts are at work, of tokens on their way to other ranks and of those that came
/// from them; 0 where every rank has all experts. Experts are expected to be chosen equally often.
double exchanged_tokens(const Job& job);

/// The loss of so many tokens. torchtitan 0.3.0 components/loss.py.
struct LossActivations {
  Bytes at_work;  // at the fullest moment of its backward pass
  Bytes waiting;  // of a micro-batch whose backward pass is still to come
};
LossActivations loss_activations(const Job& job, std::int64_t tokens);

/// Of these, what is left once the last chunk of the loss is done: inputs of the last norm and the head, and
/// the gradient of the latter.
Bytes after_loss(const Job& job, std::int64_t tokens);

}  // namespace commlens::torchtitan
