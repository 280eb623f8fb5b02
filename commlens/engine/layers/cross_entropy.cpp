#include "commlens/engine/layers/cross_entropy.hpp"

#include "commlens/engine/tensor_comm.hpp"

namespace commlens::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SplitCrossEntropy : torch::autograd::Function<SplitCrossEntropy> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& logits,
                               const torch::Tensor& targets, Communicator* tp) {
    const std::int64_t rows = logits.size(1);
    torch::Tensor scores = logits.to(torch::kFloat32);  // the same memory when the model is fp32
    const torch::Tensor largest = scores.amax(1);
    all_reduce(*tp, largest, "loss.max", ReduceOp::max).wait();
    scores.sub_(largest.unsqueeze(1));
    const torch::Tensor own = targets - tp->rank().value * rows;
    const torch::Tensor is_elsewhere = own.lt(0).logical_or(own.ge(rows));
    const torch::Tensor index = own.masked_fill(is_elsewhere, 0).unsqueeze(1);
    const torch::Tensor wanted = scores.gather(1, index).squeeze(1).masked_fill_(is_elsewhere, 0.0);
    all_reduce(*tp, wanted, "loss.target").wait();
    scores.exp_();
    const torch::Tensor total = scores.sum(1);
    all_reduce(*tp, total, "loss.sum").wait();
    context->saved_data["exponentials"] = scores;
    context->saved_data["total"] = total;
    context->saved_data["index"] = index;
    context->saved_data["is_here"] = is_elsewhere.logical_not();
    context->saved_data["dtype"] = static_cast<std::int64_t>(logits.scalar_type());
    return (total.log() - wanted).mean();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    torch::Tensor result = context->saved_data["exponentials"].toTensor();
    const torch::Tensor total = context->saved_data["total"].toTensor();
    const torch::Tensor is_here = context->saved_data["is_here"].toTensor();
    const torch::Tensor share = gradients[0] / static_cast<double>(total.numel());
    result.mul_((share / total).unsqueeze(1));
    result.scatter_add_(1, context->saved_data["index"].toTensor(),
                        (is_here.to(torch::kFloat32) * share.neg()).unsqueeze(1));
    const auto dtype = static_cast<torch::ScalarType>(context->saved_data["dtype"].toInt());
    return {result.to(dtype), {}, {}};
  }
};

}  // namespace

torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets, Communicator* tp) {
  if (tp == nullptr || tp->size() == 1) {
    return torch::nn::functional::cross_entropy(logits.to(torch::kFloat32), targets);
  }
  return SplitCrossEntropy::apply(logits, targets, tp);
}

}  // namespace commlens::engine
