#include "commlens/engine/layers/tensor_parallel.hpp"

#include "commlens/engine/tensor_comm.hpp"

namespace commlens::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool is_split(const Communicator* tp) { return tp != nullptr && tp->size() > 1; }

/// Pointers travel through autograd as integers.
std::int64_t to_integer(const void* pointer) { return reinterpret_cast<std::int64_t>(pointer); }
void keep(AutogradContext* context, Communicator* tp, const char* tag) {
  context->saved_data["tp"] = to_integer(tp);
  context->saved_data["tag"] = to_integer(tag);
}
Communicator& group_of(AutogradContext* context) {
  return *reinterpret_cast<Communicator*>(context->saved_data["tp"].toInt());
}
const char* tag_of(AutogradContext* context) {
  return reinterpret_cast<const char*>(context->saved_data["tag"].toInt());
}

/// Shards [batch, s / t, h] of all ranks -> [batch, s, h].
torch::Tensor gathered(const torch::Tensor& shard, Communicator& tp, const char* tag) {
  const std::int64_t ranks = tp.size();
  const torch::Tensor contiguous = shard.contiguous();
  const torch::Tensor parts =
      torch::empty({ranks, shard.size(0), shard.size(1), shard.size(2)}, shard.options());
  all_gather(tp, contiguous, parts, tag, Completion::now);
  return parts.transpose(0, 1).reshape({shard.size(0), ranks * shard.size(1), shard.size(2)});
}

/// Partial sums [batch, s, h] of all ranks -> this rank's shard of the sum, [batch, s / t, h].
torch::Tensor scattered(const torch::Tensor& partial, Communicator& tp, const char* tag) {
  const std::int64_t ranks = tp.size();
  const std::int64_t length = partial.size(1) / ranks;
  const torch::Tensor parts =
      partial.reshape({partial.size(0), ranks, length, partial.size(2)}).transpose(0, 1).contiguous();
  const torch::Tensor shard = torch::empty({partial.size(0), length, partial.size(2)}, partial.options());
  reduce_scatter(tp, parts, shard, tag, Completion::now);
  return shard;
}

struct CopyToTp : torch::autograd::Function<CopyToTp> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input, Communicator* tp,
                               const char* tag) {
    keep(context, tp, tag);
    return input;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::Tensor sum = gradients[0].contiguous();
    all_reduce(group_of(context), sum, tag_of(context), Completion::now);
    return {sum, {}, {}};
  }
};

struct ReduceFromTp : torch::autograd::Function<ReduceFromTp> {
  static torch::Tensor forward(AutogradContext*, const torch::Tensor& partial, Communicator* tp,
                               const char* tag) {
    torch::Tensor sum = partial.contiguous();
    all_reduce(*tp, sum, tag, Completion::now);
    return sum;
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {gradients[0], {}, {}};
  }
};

using SequenceExchange = torch::Tensor (*)(const torch::Tensor&, Communicator&, const char*);

/// `Forward` of the input; backward is `Backward` of the gradient.
template <SequenceExchange Forward, SequenceExchange Backward>
struct ExchangeSequence : torch::autograd::Function<ExchangeSequence<Forward, Backward>> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input, Communicator* tp,
                               const char* tag, const char* backward_tag) {
    keep(context, tp, backward_tag);
    return Forward(input, *tp, tag);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {Backward(gradients[0], group_of(context), tag_of(context)), {}, {}, {}};
  }
};
using GatherSequence = ExchangeSequence<gathered, scattered>;
using ScatterSequence = ExchangeSequence<scattered, gathered>;

struct SharedParameters : torch::autograd::Function<SharedParameters> {
  static variable_list forward(AutogradContext* context, at::TensorList parameters, Communicator* tp,
                               const char* tag) {
    keep(context, tp, tag);
    return parameters.vec();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    std::vector<torch::Tensor> flat;
    for (const torch::Tensor& gradient : gradients) {
      flat.push_back(gradient.reshape({-1}));
    }
    const torch::Tensor sum = torch::cat(flat);
    all_reduce(group_of(context), sum, tag_of(context), Completion::now);
    variable_list results;
    std::int64_t offset = 0;
    for (const torch::Tensor& gradient : gradients) {
      results.push_back(sum.narrow(0, offset, gradient.numel()).view(gradient.sizes()));
      offset += gradient.numel();
    }
    results.resize(results.size() + 2);  // none for the group and the tag
    return results;
  }
};

}  // namespace

torch::Tensor copy_to_tp(const torch::Tensor& input, Communicator* tp, const char* backward_tag) {
  return is_split(tp) ? CopyToTp::apply(input, tp, backward_tag) : input;
}

torch::Tensor reduce_from_tp(const torch::Tensor& partial, Communicator* tp, const char* tag) {
  return is_split(tp) ? ReduceFromTp::apply(partial, tp, tag) : partial;
}

torch::Tensor gather_sequence(const torch::Tensor& shard, Communicator* tp, const char* tag,
                              const char* backward_tag) {
  return is_split(tp) ? GatherSequence::apply(shard, tp, tag, backward_tag) : shard;
}

torch::Tensor scatter_sequence(const torch::Tensor& partial, Communicator* tp, const char* tag,
                               const char* backward_tag) {
  return is_split(tp) ? ScatterSequence::apply(partial, tp, tag, backward_tag) : partial;
}

std::vector<torch::Tensor> shared_parameters(const std::vector<torch::Tensor>& parameters, Communicator* tp,
                                             const char* backward_tag) {
  return is_split(tp) ? SharedParameters::apply(at::TensorList(parameters), tp, backward_tag) : parameters;
}

}  // namespace commlens::engine
