#pragma once
#include <vector>

#include "commlens/engine/torch.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens::engine {

/// The communication of a tensor-parallel layer as autograd functions (Megatron-LM, arXiv 1909.08053;
/// sequence parallelism: arXiv 2205.05198). `tp` null or of one rank: the identity. Tags are string literals.
/// Activations are [batch, sequence, hidden]; a sequence shard is [batch, sequence / t, hidden].

/// Identity; backward all_reduces the gradient, in its memory if that is contiguous: let the one consumer of
/// the result be a linear layer, whose backward makes a gradient of its own.
torch::Tensor copy_to_tp(const torch::Tensor& input, Communicator* tp, const char* backward_tag);
/// all_reduce, in the memory of `partial` (which must not be used afterwards); backward is the identity.
torch::Tensor reduce_from_tp(const torch::Tensor& partial, Communicator* tp, const char* tag);
/// all_gather of the shards; backward reduce_scatters.
torch::Tensor gather_sequence(const torch::Tensor& shard, Communicator* tp, const char* tag,
                              const char* backward_tag);
/// reduce_scatter of the partial sums; backward all_gathers.
torch::Tensor scatter_sequence(const torch::Tensor& partial, Communicator* tp, const char* tag,
                               const char* backward_tag);
/// Identity on parameters that all tensor ranks hold and use on their own part of the sequence; backward
/// all_reduces their gradients in one call.
std::vector<torch::Tensor> shared_parameters(const std::vector<torch::Tensor>& parameters, Communicator* tp,
                                             const char* backward_tag);

}  // namespace commlens::engine
