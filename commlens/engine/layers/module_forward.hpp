#pragma once
#include <cstdint>
#include <vector>

#include "commlens/engine/torch.hpp"
#include "commlens/frameworks/commlens/flat_units.hpp"
#include "commlens/model/model_config.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens::engine {

/// Inputs of the layers of one rank besides parameters and activations; must outlive the graphs built with
/// it.
struct LayerContext {
  ModelConfig model;           // vocab padded; raw_vocab: the ids that take part in the softmax
  Communicator* tp = nullptr;  // null or of one rank: no tensor parallelism
  bool sequence_parallel = false;
  bool selective_recompute = false;  // attention scores are computed again in backward
  bool fused_attention = false;      // by a kernel of LibTorch that keeps no scores (attention.hpp)
  torch::Tensor rotary_cos;          // [sequence, rotary dims], computed by make_layer_context
  torch::Tensor rotary_sin;
  torch::Tensor sinusoidal;   // [sequence, h] in fp32, with sinusoidal positions
  torch::Tensor causal_mask;  // [sequence, sequence] of bool, true where attention is forbidden
};

/// `rotary_fraction`: share of the head dimension that rotates (rotary_pct).
LayerContext make_layer_context(const ModelConfig& model, double rotary_fraction, torch::Device device);

/// The slopes of ALiBi, one a head: 2^(-8 i / n) for n = 1, 2, 4, ... heads, i from 1; other counts take
/// those of the power of two below, then every other one of twice that. Source: arXiv 2108.12409 and its
/// program.
std::vector<double> alibi_slopes(std::int64_t heads);

/// One module's forward pass; builds the autograd graph when gradients are enabled.
///   parameters   in the order of HeldModule::parameters: embedding: wte, [wpe]; block: ln1 weight, bias, qkv
///                weight, bias, proj weight, bias, ln2 weight, bias, fc1 weight, bias, fc2 weight, bias;
///                head: norm weight, bias, head weight (tied: wte). Shapes on this rank.
///   input        embedding: tokens, int64 [batch, sequence]; else activations [batch, sequence, hidden],
///   under
///                sequence parallelism [batch, sequence / tp, hidden]
/// Returns activations, or for the head the mean loss over the micro-batch's tokens, a scalar in fp32 (equal
/// on all tensor ranks). `targets`: int64 [batch, sequence], head only.
torch::Tensor embedding_forward(const LayerContext& context, const std::vector<torch::Tensor>& parameters,
                                const torch::Tensor& tokens);
torch::Tensor block_forward(const LayerContext& context, const std::vector<torch::Tensor>& parameters,
                            const torch::Tensor& input);
torch::Tensor head_forward(const LayerContext& context, const std::vector<torch::Tensor>& parameters,
                           const torch::Tensor& input, const torch::Tensor& targets);

/// The part of a freshly drawn full tensor that tensor rank `tp_rank` of `tp` holds, as fp32 on the CPU, of
/// `parameter.shape`. The same seed and name give the same full tensor in every layout: norms 1 and 0, biases
/// 0, matrices as `model.initialisation` says; rows of the padded vocabulary are drawn like the others. qkv
/// is split by heads: each rank holds whole heads, its rows ordered head by head (q, k, v of a head
/// together).
torch::Tensor initial_parameter(const HeldParameter& parameter, const ModelConfig& model, std::uint64_t seed,
                                std::int64_t tp, std::int64_t tp_rank);

}  // namespace commlens::engine
