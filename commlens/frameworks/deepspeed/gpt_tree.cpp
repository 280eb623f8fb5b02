#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "commlens/frameworks/deepspeed/model_trees.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"
#include "commlens/frameworks/deepspeed/tensor_split.hpp"
#include "commlens/frameworks/deepspeed/tree_builder.hpp"

namespace commlens::deepspeed {
namespace {

using Input = ModelModule::Input;

/// The tree `gpt`: embed {wte, wpe}, blocks, norm {norm}, head {out}.
class GptTree {
 public:
  explicit GptTree(const LocalParameters& parameters) : builder_("GPT") {
    for (const LocalParameter& parameter : parameters) {
      layers_ = std::max(layers_, parameter.layer + 1);
      by_leaf_[{parameter.leaf, parameter.layer}].push_back(parameter);
    }
  }

  /// The experts and the low ranks of `job`; null: a client's own model.
  ModelTree build(const Job* job) {
    job_ = job;
    if (job != nullptr) {
      splits_.emplace(*job);
    }
    add_embedding();
    const std::size_t blocks =
        builder_.add(TreeBuilder::k_root, {.name = "blocks", .class_name = "ModuleList", .is_called = false});
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      const std::size_t block = add_block(blocks, layer);
      builder_.module(TreeBuilder::k_root).calls.push_back(block);
    }
    const std::size_t norm = builder_.add(TreeBuilder::k_root, {.name = "norm", .class_name = "Norm"});
    add_leaf(norm, "norm", Leaf::norm, -1);
    const std::size_t head = builder_.add(TreeBuilder::k_root, {.name = "head", .class_name = "Head"});
    const std::size_t out = add_leaf(head, "out", Leaf::head, -1);
    const auto weight = by_leaf_.find({Leaf::wte, -1});
    if (builder_.module(out).parameters.empty() && weight != by_leaf_.end()) {
      builder_.module(out).parameters.push_back(0);  // tied: the weight of the embedding
    }
    return builder_.take();
  }

 private:
  void add_embedding() {
    const std::size_t embed = builder_.add(
        TreeBuilder::k_root, {.name = "embed", .class_name = "Embed", .input = Input::no_gradient});
    add_leaf(embed, "wte", Leaf::wte, -1);
    if (by_leaf_.contains({Leaf::wpe, -1})) {
      add_leaf(embed, "wpe", Leaf::wpe, -1);
    }
  }

  std::size_t add_block(std::size_t blocks, std::int64_t layer) {
    const std::size_t block =
        builder_.add(blocks, {.name = fmt::format("{}", layer), .class_name = "Block"}, layer);
    builder_.module(block).is_block = true;
    add_leaf(block, "ln1", Leaf::ln1, layer);
    add_linear(block, "qkv", Leaf::qkv, layer);
    add_linear(block, "proj", Leaf::proj, layer);
    add_leaf(block, "ln2", Leaf::ln2, layer);
    if (has_experts(layer)) {
      add_experts(block, layer);
      return block;
    }
    if (by_leaf_.contains({Leaf::router, layer})) {
      add_leaf(block, "router", Leaf::router, layer);
    }
    add_linear(block, "fc1", Leaf::fc1, layer);
    add_linear(block, "fc2", Leaf::fc2, layer);
    return block;
  }

  bool has_experts(std::int64_t layer) const {
    if (job_ == nullptr) {
      return false;
    }
    const std::vector<std::int64_t>& layers = options(*job_).mixture.layers;
    return std::find(layers.begin(), layers.end(), layer) != layers.end();
  }

  /// moe {deepspeed_moe {gate {wg}, experts {deepspeed_experts {0 {fc1, fc2}, …}}}}.
  void add_experts(std::size_t block, std::int64_t layer) {
    const ModelConfig& model = job_->model;
    const std::size_t moe = builder_.add(block, {.name = "moe", .class_name = "MoE"}, layer);
    const std::size_t inner = builder_.add(moe, {.name = "deepspeed_moe", .class_name = "MOELayer"}, layer);
    builder_.module(inner).combines = true;
    const std::size_t gate = builder_.add(inner, {.name = "gate", .class_name = "TopKGate"}, layer);
    builder_.add_linear(gate, {.name = "wg", .leaf = Leaf::router}, {model.experts, model.hidden}, false,
                        layer);
    const std::size_t experts = builder_.add(inner, {.name = "experts", .class_name = "Experts"}, layer);
    const std::size_t list = builder_.add(
        experts, {.name = "deepspeed_experts", .class_name = "ModuleList", .is_called = false}, layer);
    for (std::int64_t expert = 0; expert < model.experts / job_->layout.ep; ++expert) {
      const std::size_t one =
          builder_.add(list, {.name = fmt::format("{}", expert), .class_name = "Expert"}, layer);
      builder_.module(experts).calls.push_back(one);
      const bool computes = expert == 0;  // the kernels of a part are those of all experts of a rank
      const std::optional<Leaf> fc1 = computes ? std::optional(Leaf::fc1) : std::nullopt;
      const std::optional<Leaf> fc2 = computes ? std::optional(Leaf::fc2) : std::nullopt;
      builder_.add_linear(one, {.name = "fc1", .leaf = fc1}, {4 * model.hidden, model.hidden}, true, layer,
                          true);
      builder_.add_linear(one, {.name = "fc2", .leaf = fc2}, {model.hidden, 4 * model.hidden}, true, layer,
                          true);
    }
  }

  std::size_t add_leaf(std::size_t parent, const std::string& name, Leaf leaf, std::int64_t layer) {
    const bool is_embedding = leaf == Leaf::wte || leaf == Leaf::wpe;
    const bool is_linear = leaf == Leaf::head || leaf == Leaf::router;
    const std::size_t row = builder_.add(parent,
                                         {.name = name,
                                          .class_name = is_embedding ? "Embedding"
                                                        : is_linear  ? "Linear"
                                                                     : "LayerNorm",
                                          .leaf = leaf,
                                          .input = is_embedding ? Input::no_gradient : Input::previous},
                                         layer);
    if (is_linear) {
      make_linear(row, leaf, layer);
    }
    add_parameters(row, leaf, layer);
    return row;
  }

  void make_linear(std::size_t row, Leaf leaf, std::int64_t layer) {
    const auto found = by_leaf_.find({leaf, layer});
    const std::int64_t count = found == by_leaf_.end() ? 0 : found->second.front().count;
    const std::int64_t hidden = job_ == nullptr ? 1 : job_->model.hidden;
    const std::int64_t inputs = job_ != nullptr && leaf == Leaf::fc2 ? job_->model.ffn_hidden : hidden;
    builder_.make_linear(row, inputs, count / inputs);
  }

  void add_parameters(std::size_t row, Leaf leaf, std::int64_t layer) {
    ModelModule& module = builder_.module(row);
    if (splits_ && module.is_linear) {
      module.split = splits_->of(module.name + ".weight");
      module.gathers_output = splits_->gathers(module.name + ".weight");
    }
    if (const auto found = by_leaf_.find({leaf, layer}); found != by_leaf_.end()) {
      for (LocalParameter parameter : found->second) {
        parameter.count /= tensor_parts(builder_.module(row).split, parameter);
        builder_.add_parameter(row, std::move(parameter));
      }
    }
  }

  /// Over how many tensor ranks AutoTP splits it; the bias with the rows of its weight.
  std::int64_t tensor_parts(TensorSplit split, const LocalParameter& parameter) const {
    const bool is_split = split == TensorSplit::column || (split == TensorSplit::row && !parameter.is_bias);
    return is_split ? job_->layout.tp : 1;
  }

  void add_linear(std::size_t block, const std::string& name, Leaf leaf, std::int64_t layer) {
    const std::vector<std::string> none;
    const std::vector<std::string>& targets = job_ == nullptr ? none : options(*job_).low_rank.targets;
    if (std::find(targets.begin(), targets.end(), name) == targets.end()) {
      const std::size_t row =
          builder_.add(block, {.name = name, .class_name = "Linear", .leaf = leaf}, layer);
      make_linear(row, leaf, layer);
      add_parameters(row, leaf, layer);
      return;
    }
    const std::size_t around = builder_.add(block, {.name = name, .class_name = "LoraLinear"}, layer);
    const std::size_t base = builder_.add(
        around, {.name = "base", .class_name = "Linear", .leaf = leaf, .input = Input::same_as_parent},
        layer);
    make_linear(base, leaf, layer);
    add_parameters(base, leaf, layer);
    const std::int64_t rank = options(*job_).low_rank.rank;
    const ModelModule whole = builder_.module(base);
    builder_.add_linear(around, {.name = "A", .input = Input::same_as_parent}, {rank, whole.inputs}, false,
                        layer);
    builder_.add_linear(around, {.name = "B"}, {whole.outputs, rank}, false, layer);
  }

  TreeBuilder builder_;
  const Job* job_ = nullptr;
  std::optional<TensorSplits> splits_;
  std::map<std::pair<Leaf, std::int64_t>, LocalParameters> by_leaf_;
  std::int64_t layers_ = 0;
};

}  // namespace

ModelTree build_gpt_tree(const LocalParameters& parameters, const Job* job) {
  return GptTree(parameters).build(job);
}

}  // namespace commlens::deepspeed
