#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "commlens/engine/layers/module_forward.hpp"

/// Test support: a model of one block, small enough to be computed by plain formulas, and its parts on tensor
/// ranks.
namespace commlens::engine::test {

constexpr std::int64_t k_batch = 2;
constexpr std::int64_t k_sequence = 12;
constexpr std::int64_t k_hidden = 32;
constexpr std::int64_t k_heads = 4;
constexpr std::int64_t k_vocab = 96;
constexpr std::int64_t k_max_positions = 16;
constexpr double k_rotary_fraction = 0.5;  // 4 of the 8 elements of a head

struct Variant {
  Positions positions = Positions::rotary;
  bool parallel_residual = false;
  bool tied = false;
  bool sequence_parallel = false;
  bool selective = false;
  Activation activation = Activation::gelu;
  double norm_epsilon = 1e-5;
  double rotary_base = 10'000;
};
std::string text_of(const Variant& variant);

ModelConfig model_of(const Variant& variant);

/// Parameters of the three modules, in the order of module_forward.hpp, and how each is split.
struct Parameters {
  std::vector<torch::Tensor> embedding;
  std::vector<torch::Tensor> block;
  std::vector<torch::Tensor> head;  // tied: without the table
};

/// Random values of `type`, large enough for every term to matter, biases included; they require gradients.
Parameters drawn_parameters(const Variant& variant, torch::ScalarType type = torch::kFloat32);
/// The parts of `whole` on tensor rank `rank` of `ranks`, as new leaves.
Parameters part_of(const Parameters& whole, std::int64_t ranks, std::int64_t rank);
/// The gradients, in the same places.
Parameters gradients_of(const Parameters& parameters);

torch::Tensor drawn_tokens();   // [batch, sequence]
torch::Tensor drawn_targets();  // [batch, sequence]

/// The loss through our modules.
torch::Tensor loss_of(const LayerContext& context, const Parameters& parameters);
/// The loss through plain operations, head by head and pair by pair.
torch::Tensor plain_loss_of(const ModelConfig& model, const Parameters& parameters);
torch::Tensor plain_block(const ModelConfig& model, const std::vector<torch::Tensor>& parameters,
                          const torch::Tensor& input);

/// "loss, largest difference 0.1" for every tensor of `found` that is not within `tolerance` of the one of
/// `expected`, absolute plus relative; empty when all are.
std::string differences(const Parameters& found, const Parameters& expected, double tolerance);
std::string difference(const std::string& what, const torch::Tensor& found, const torch::Tensor& expected,
                       double tolerance);

/// Calls `body` as each of `ranks` ranks, one thread each, of LibTorch too.
void as_ranks(std::int64_t ranks, const std::function<void(Communicator& tp)>& body);

/// Counts the calls on another communicator: "all_reduce 768 fp32 block.proj": the elements of a call's
/// larger buffer.
class CountingCommunicator : public Communicator {
 public:
  explicit CountingCommunicator(Communicator& counted) : counted_(counted) {}
  const std::vector<Rank>& members() const override { return counted_.members(); }
  GroupRank rank() const override { return counted_.rank(); }
  std::unique_ptr<Work> start(const CommCall& call) override;
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override;
  void abort(std::string_view reason) override { counted_.abort(reason); }

  /// The calls since the last one of this, in order.
  std::vector<std::string> taken();

 private:
  Communicator& counted_;
  std::vector<std::string> calls_;
};

}  // namespace commlens::engine::test
