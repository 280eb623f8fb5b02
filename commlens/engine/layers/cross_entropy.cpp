#include "commlens/engine/layers/cross_entropy.hpp"

#include <algorithm>
#include <limits>

#include "commlens/engine/tensor_comm.hpp"

namespace commlens::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Elements of a piece of the logits that is worked on at once: about what a core's cache holds, or enough to
/// keep a device busy.
constexpr std::int64_t k_host_piece = std::int64_t{1} << 19;
constexpr std::int64_t k_device_piece = std::int64_t{1} << 26;

/// Values per token; fp32 (fp64 for logits of fp64), all [tokens].
struct Tokens {
  torch::Tensor largest;  // logit
  torch::Tensor wanted;   // logit of the target, less the largest
  torch::Tensor total;    // sum of exponentials
};

/// The logits of one rank, processed in pieces of whole rows and in place: in the end their memory holds
/// their gradient.
class LogitsInPlace {
 public:
  LogitsInPlace(const torch::Tensor& logits, const torch::Tensor& targets, std::int64_t first_row)
      : logits_(logits.detach()),
        score_type_(torch::promote_types(logits.scalar_type(), torch::kFloat32)),
        piece_(
            std::max<std::int64_t>(1, (logits.is_cpu() ? k_host_piece : k_device_piece) / logits.size(1))) {
    const torch::Tensor own = first_row == 0 ? targets : targets - first_row;
    is_elsewhere_ = own.lt(0).logical_or_(own.ge(logits.size(1)));
    index_ = own.masked_fill(is_elsewhere_, 0).unsqueeze(1);
  }

  std::int64_t tokens() const { return logits_.size(0); }
  std::int64_t piece() const { return piece_; }
  torch::Tensor empty_tokens() const {
    return torch::empty({tokens()}, logits_.options().dtype(score_type_));
  }

  /// The rows [first, first + count) in the type of the computation; without a copy if that is the logits'
  /// type.
  torch::Tensor scores(std::int64_t first, std::int64_t count) const {
    return logits_.narrow(0, first, count).to(score_type_);
  }
  /// The target's logit, 0 where another rank has it.
  torch::Tensor target_logits(const torch::Tensor& scores, std::int64_t first) const {
    const std::int64_t count = scores.size(0);
    return scores.gather(1, index_.narrow(0, first, count))
        .squeeze(1)
        .masked_fill_(is_elsewhere_.narrow(0, first, count), 0.0);
  }
  /// Turns exponentials of rows from `first` on into the gradient of the mean loss, in the logits' memory.
  void store_gradient(const torch::Tensor& exponentials, const torch::Tensor& total, std::int64_t first) {
    const std::int64_t count = exponentials.size(0);
    const double share = 1.0 / static_cast<double>(tokens());
    exponentials.mul_((share / total).unsqueeze(1));
    const torch::Tensor of_target = torch::full({count}, -share, exponentials.options())
                                        .masked_fill_(is_elsewhere_.narrow(0, first, count), 0.0);
    exponentials.scatter_add_(1, index_.narrow(0, first, count), of_target.unsqueeze(1));
    if (!shares_memory()) {
      logits_.narrow(0, first, count).copy_(exponentials);
    }
  }
  /// Excludes the columns from `valid` on from the softmax.
  void mask_padding(std::int64_t valid) {
    const std::int64_t columns = logits_.size(1);
    if (valid < columns) {
      logits_.narrow(1, std::max<std::int64_t>(0, valid), columns - std::max<std::int64_t>(0, valid))
          .fill_(-std::numeric_limits<double>::infinity());
    }
  }
  bool shares_memory() const { return logits_.scalar_type() == score_type_; }
  const torch::Tensor& memory() const { return logits_; }
  const torch::Tensor& is_elsewhere() const { return is_elsewhere_; }

 private:
  torch::Tensor logits_;
  torch::ScalarType score_type_;
  std::int64_t piece_;
  torch::Tensor is_elsewhere_;  // bool [tokens]
  torch::Tensor index_;         // int64 [tokens, 1], of this rank's part of the vocabulary
};

/// Processes one piece completely while it is in the cache.
Tokens whole_vocabulary(LogitsInPlace& logits, bool wants_gradient) {
  Tokens tokens{.wanted = logits.empty_tokens(), .total = logits.empty_tokens()};
  for (std::int64_t first = 0; first < logits.tokens(); first += logits.piece()) {
    const std::int64_t count = std::min(logits.piece(), logits.tokens() - first);
    const torch::Tensor scores = logits.scores(first, count);
    scores.sub_(scores.amax(1, true));
    tokens.wanted.narrow(0, first, count).copy_(logits.target_logits(scores, first));
    torch::Tensor total = tokens.total.narrow(0, first, count);
    torch::sum_out(total, scores.exp_(), 1);
    if (wants_gradient) {
      logits.store_gradient(scores, total, first);
    }
  }
  return tokens;
}

/// The same with a vocabulary split over `tp`. Exponentials of bf16 are computed twice: keeping them takes
/// twice the memory of the logits.
Tokens split_vocabulary(LogitsInPlace& logits, Communicator& tp, bool wants_gradient) {
  Tokens tokens{logits.empty_tokens(), logits.empty_tokens(), logits.empty_tokens()};
  const auto each_piece = [&](const auto& body) {
    for (std::int64_t first = 0; first < logits.tokens(); first += logits.piece()) {
      body(first, std::min(logits.piece(), logits.tokens() - first));
    }
  };
  each_piece([&](std::int64_t first, std::int64_t count) {
    const torch::Tensor scores = logits.scores(first, count);
    torch::Tensor largest = tokens.largest.narrow(0, first, count);
    torch::amax_out(largest, scores, 1);
    tokens.wanted.narrow(0, first, count).copy_(logits.target_logits(scores, first));
  });
  all_reduce(tp, tokens.largest, "loss.max", Completion::now, ReduceOp::max);
  tokens.wanted.sub_(tokens.largest).masked_fill_(logits.is_elsewhere(), 0.0);
  all_reduce(tp, tokens.wanted, "loss.target", Completion::now);
  const auto exponentials = [&](std::int64_t first, std::int64_t count) {
    const torch::Tensor largest = tokens.largest.narrow(0, first, count).unsqueeze(1);
    return logits.scores(first, count).sub_(largest).exp_();
  };
  each_piece([&](std::int64_t first, std::int64_t count) {
    torch::Tensor total = tokens.total.narrow(0, first, count);
    torch::sum_out(total, exponentials(first, count), 1);
  });
  all_reduce(tp, tokens.total, "loss.sum", Completion::now);
  if (wants_gradient) {
    each_piece([&](std::int64_t first, std::int64_t count) {
      logits.store_gradient(logits.shares_memory() ? logits.scores(first, count) : exponentials(first, count),
                            tokens.total.narrow(0, first, count), first);
    });
  }
  return tokens;
}

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& logits,
                               const torch::Tensor& targets, Communicator* tp, std::int64_t vocab) {
    const bool is_split = tp != nullptr && tp->size() > 1;
    const std::int64_t first_row = is_split ? tp->rank().value * logits.size(1) : 0;
    LogitsInPlace in_place(logits, targets, first_row);
    in_place.mask_padding(vocab - first_row);
    const bool wants_gradient = logits.requires_grad();
    const Tokens tokens = is_split ? split_vocabulary(in_place, *tp, wants_gradient)
                                   : whole_vocabulary(in_place, wants_gradient);
    context->saved_data["gradient"] = in_place.memory();
    return tokens.total.log().sub_(tokens.wanted).mean();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::Tensor gradient = context->saved_data["gradient"].toTensor();
    return {gradient.mul_(gradients[0]), {}, {}, {}};
  }
};

}  // namespace

torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets, Communicator* tp,
                            std::int64_t vocab) {
  return CrossEntropy::apply(logits, targets, tp, vocab);
}

}  // namespace commlens::engine
