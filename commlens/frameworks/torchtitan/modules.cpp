#include "commlens/frameworks/torchtitan/modules.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace commlens::torchtitan {
namespace {

using pytorch::Module;
using pytorch::Parameter;
using pytorch::TensorSharding;
using Kind = Module::Kind;

/// What the gradient of a parameter that tensor ranks hold whole is: the sum of their parts always, with
/// sequence parallelism alone, or never in parts.
enum class Whole : std::uint8_t { partial, partial_by_sequence };

struct Shape {
  std::string_view name;
  std::int64_t rows = 0;
  std::int64_t row = 0;  // 0: of one dimension
  TensorSharding sharding = TensorSharding::whole;
  Whole whole = Whole::partial;
};

constexpr auto k_rows = TensorSharding::rows;
constexpr auto k_columns = TensorSharding::columns;
constexpr auto k_whole = TensorSharding::whole;

class TreeBuilder {
 public:
  explicit TreeBuilder(const Job& job) : job_(job), model_(job.model) {}

  Module module(Kind kind, const std::string& name, const std::vector<Shape>& shapes) const {
    Module module{.kind = kind};
    for (const Shape& shape : shapes) {
      module.parameters.push_back(parameter(name, shape));
    }
    return module;
  }

  Module block(std::int64_t layer) const {
    const std::string name = fmt::format("layers.{}", layer);
    Module block{.kind = Kind::block, .layer = layer};
    const auto add = [&](const std::vector<Shape>& shapes) {
      for (const Shape& shape : shapes) {
        block.parameters.push_back(parameter(name, shape));
      }
    };
    add(model_.latent.is_used() ? latent_attention() : attention());
    const std::vector<Shape> norms = {
        {"attention_norm.weight", model_.hidden, 0, k_whole, Whole::partial_by_sequence},
        {"ffn_norm.weight", model_.hidden, 0, k_whole, Whole::partial_by_sequence}};
    // Classes list what they add before what they inherit.
    const bool norms_last = !model_.latent.is_used() && !has_biases();
    if (!norms_last) {
      add(norms);
    }
    if (is_mixture(job_, layer)) {
      add_experts(block, name);
      add(mixture());
    } else {
      add(feed_forward());
    }
    if (norms_last) {
      add(norms);
    }
    return block;
  }

 private:
  /// gpt-oss.
  bool has_biases() const { return model_.linear_bias; }

  std::vector<Shape> attention() const {
    const std::int64_t h = model_.hidden;
    const std::int64_t d = model_.head_dim;
    const std::int64_t queries = model_.heads * d;
    const std::int64_t keys = model_.kv_heads * d;
    std::vector<Shape> shapes;
    if (model_.attention_sinks) {
      shapes.push_back({"attention.sinks", model_.heads, 0, k_rows});
    }
    const auto project = [&](std::string_view weight, std::string_view bias, std::int64_t rows) {
      shapes.push_back({weight, rows, h, k_rows});
      if (model_.qkv_bias) {
        shapes.push_back({bias, rows, 0, k_rows});
      }
    };
    if (options(job_).fuses_qkv) {
      project("attention.qkv_linear.wqkv.weight", "attention.qkv_linear.wqkv.bias", queries + 2 * keys);
    } else {
      project("attention.qkv_linear.wq.weight", "attention.qkv_linear.wq.bias", queries);
      project("attention.qkv_linear.wk.weight", "attention.qkv_linear.wk.bias", keys);
      project("attention.qkv_linear.wv.weight", "attention.qkv_linear.wv.bias", keys);
    }
    shapes.push_back({"attention.wo.weight", h, queries, k_columns});
    if (has_biases()) {
      shapes.push_back({"attention.wo.bias", h, 0});
    }
    if (model_.qk_norm) {
      shapes.push_back({"attention.q_norm.weight", d, 0});
      shapes.push_back({"attention.k_norm.weight", d, 0});
    }
    return shapes;
  }

  std::vector<Shape> latent_attention() const {
    const std::int64_t h = model_.hidden;
    const LatentAttention& latent = model_.latent;
    const std::int64_t queries = model_.heads * (latent.nope_dim + latent.rope_dim);
    std::vector<Shape> shapes;
    if (latent.query_rank > 0) {
      shapes = {{"attention.wq_a.weight", latent.query_rank, h},
                {"attention.q_norm.weight", latent.query_rank, 0},
                {"attention.wq_b.weight", queries, latent.query_rank, k_rows}};
    } else {
      shapes = {{"attention.wq.weight", queries, h, k_rows}};
    }
    shapes.insert(shapes.end(),
                  {{"attention.wkv_a.weight", latent.kv_rank + latent.rope_dim, h},
                   {"attention.kv_norm.weight", latent.kv_rank, 0},
                   {"attention.wkv_b.weight", model_.heads * (latent.nope_dim + latent.value_dim),
                    latent.kv_rank, k_rows},
                   {"attention.wo.weight", h, model_.heads * latent.value_dim, k_columns}});
    return shapes;
  }

  std::vector<Shape> feed_forward() const {
    const std::int64_t h = model_.hidden;
    const std::int64_t f = model_.ffn_hidden;
    return {{"feed_forward.w1.weight", f, h, k_rows},
            {"feed_forward.w2.weight", h, f, k_columns},
            {"feed_forward.w3.weight", f, h, k_rows}};
  }

  /// Of a layer with experts, without them.
  std::vector<Shape> mixture() const {
    const std::int64_t h = model_.hidden;
    const std::int64_t shared = model_.shared_experts * model_.expert_hidden();
    std::vector<Shape> shapes = {{"moe.router.gate.weight", model_.experts, h}};
    if (model_.router_bias) {
      shapes.push_back({"moe.router.gate.bias", model_.experts, 0});
    }
    if (shared > 0) {
      shapes.insert(shapes.end(), {{"moe.shared_experts.w1.weight", shared, h, k_rows},
                                   {"moe.shared_experts.w2.weight", h, shared, k_columns},
                                   {"moe.shared_experts.w3.weight", shared, h, k_rows}});
    }
    return shapes;
  }

  /// Weights of three dimensions: experts, then two of which tensor ranks split one, unless the experts
  /// themselves are divided.
  void add_experts(Module& block, const std::string& name) const {
    const std::int64_t h = model_.hidden;
    const std::int64_t f = model_.expert_hidden();
    if (has_biases()) {
      add_expert(block, name, {"mlp1_weight_EGD", 2 * f, h, k_rows});
      add_expert(block, name, {"mlp1_bias_EG", 2 * f, 0, k_rows});
      add_expert(block, name, {"mlp2_weight_EDF", h, f, k_columns});
      add_expert(block, name, {"mlp2_bias_ED", h, 0});
      return;
    }
    add_expert(block, name, {"w1_EFD", f, h, k_rows});
    add_expert(block, name, {"w2_EDF", h, f, k_columns});
    add_expert(block, name, {"w3_EFD", f, h, k_rows});
  }

  void add_expert(Module& block, const std::string& name, const Shape& shape) const {
    const std::int64_t ep = job_.layout.ep;
    const std::int64_t tp = ep > 1 ? 1 : job_.layout.tp;
    const std::int64_t experts = model_.experts / ep;
    const std::int64_t second = shape.sharding == k_rows ? ceil_div(shape.rows, tp) : shape.rows;
    const std::int64_t third = std::max<std::int64_t>(shape.row, 1);
    const std::int64_t last = shape.sharding == k_columns ? ceil_div(third, tp) : third;
    Parameter parameter{.name = fmt::format("{}.moe.routed_experts.inner_experts.{}", name, shape.name),
                        .dtype = job_.train.dtype,
                        .sharding = tp > 1 ? shape.sharding : k_whole,
                        .is_expert = true};
    // Along the second dimension shards are of equal size: the elements of all experts are as many rows.
    parameter.rows = shards_second_dimension(job_) ? experts * second : experts;
    parameter.row = shards_second_dimension(job_) ? last : second * last;
    parameter.whole_rows = shards_second_dimension(job_) ? model_.experts * shape.rows : model_.experts;
    parameter.whole_row = shards_second_dimension(job_) ? third : shape.rows * third;
    parameter.dimensions = shape.row == 0 ? 2 : 3;
    parameter.is_partial = tp > 1 && shape.sharding == k_whole;
    block.parameters.push_back(std::move(parameter));
  }

  Parameter parameter(const std::string& module, const Shape& shape) const {
    const std::int64_t tp = job_.layout.tp;
    Parameter parameter{.name = fmt::format("{}.{}", module, shape.name),
                        .dimensions = shape.row == 0 ? 1 : 2,
                        .dtype = job_.train.dtype,
                        .sharding = shape.sharding};
    parameter.rows = parameter.whole_rows = shape.rows;
    parameter.row = parameter.whole_row = std::max<std::int64_t>(shape.row, 1);
    if (shape.sharding == k_rows) {
      parameter.rows = ceil_div(shape.rows, tp);
    } else if (shape.sharding == k_columns) {
      parameter.row = ceil_div(shape.row, tp);
    }
    parameter.is_partial = tp > 1 && shape.sharding == k_whole &&
                           (shape.whole == Whole::partial || job_.layout.sequence_parallel);
    return parameter;
  }

  const Job& job_;
  const ModelConfig& model_;
};

AxisSpan all_of(const Axis& axis) { return {axis, {Span::Shape::all, 1}}; }

}  // namespace

std::int64_t expert_shard_ranks(const Job& job) {
  return job.layout.dp / options(job).replicate * job.layout.cp * job.layout.tp / job.layout.ep;
}

Groups::Groups(ProgramBuilder& out, const Job& job) : pytorch::Groups(out, job) {
  loss = out.groups.over(job.layout.cp > 1 ? Axis("loss") : Axis::dp, {all_of(Axis::dp), all_of(Axis::cp)});
  batch = out.groups.along(Axis::dp);
  expert = out.groups.along(Axis::ep);
  expert_shard = out.groups.along(Axis::edp);
  expert_state = out.groups.over(Axis("efsdp_ep"), {all_of(Axis::edp), all_of(Axis::ep)});
  batch_ranks = job.layout.dp;
  loss_ranks = job.layout.dp * job.layout.cp;
  expert_shard_ranks = torchtitan::expert_shard_ranks(job);
}

Meshes Groups::meshes() const {
  Meshes meshes{mesh(), mesh()};
  meshes.experts.shard = expert_shard;
  meshes.experts.shard_ranks = expert_shard_ranks;
  return meshes;
}

bool shards_second_dimension(const Job& job) {
  // Without expert ranks it counts the mesh that holds the states: replicas and tensor ranks too
  // (distributed/fsdp.py:228, full_dtensor.py:83).
  const std::int64_t ranks = job.layout.ep > 1 ? expert_shard_ranks(job) * job.layout.ep
                                               : job.layout.dp * job.layout.cp * job.layout.tp;
  return ranks > job.model.experts;
}

pytorch::LayerRange stage_layers(const Job& job, std::int64_t stage, std::int64_t stages) {
  const std::int64_t layers = job.model.layers;
  if (stages == 1) {
    return {0, layers};
  }
  const Options& own = options(job);
  const std::int64_t all = layers + own.first_stage_less_layers + own.last_stage_less_layers;
  const auto begin = [&](std::int64_t at) { return at * (all / stages) + std::min(at, all % stages); };
  const std::int64_t first = std::max<std::int64_t>(begin(stage) - own.first_stage_less_layers, 0);
  const std::int64_t end = std::min(begin(stage + 1) - own.first_stage_less_layers, layers);
  return {first, end - first};
}

bool is_mixture(const Job& job, std::int64_t layer) {
  return job.model.experts > 0 && layer >= job.model.dense_layers;
}

std::vector<Module> stage_modules(const Job& job, std::int64_t stage, std::int64_t stages) {
  const TreeBuilder tree(job);
  const std::int64_t vocab = job.model.vocab;
  const std::int64_t hidden = job.model.hidden;
  std::vector<Module> modules;
  if (stage == 0) {
    modules.push_back(tree.module(Kind::embedding, "tok_embeddings", {{"weight", vocab, hidden, k_rows}}));
  }
  const pytorch::LayerRange layers = stage_layers(job, stage, stages);
  for (std::int64_t layer = layers.first; layer < layers.first + layers.count; ++layer) {
    modules.push_back(tree.block(layer));
  }
  if (stage == stages - 1) {
    modules.push_back(
        tree.module(Kind::norm, "norm", {{"weight", hidden, 0, k_whole, Whole::partial_by_sequence}}));
    modules.push_back(tree.module(Kind::output, "lm_head", {{"weight", vocab, hidden, k_rows}}));
    modules.back().parameters.front().is_alias = job.model.tied_embeddings;
  }
  return modules;
}

namespace {

/// The calls of fully_shard, one after the other.
class UnitBuilder {
 public:
  UnitBuilder(const Job& job, const Meshes& meshes, const std::vector<Module>& modules)
      : job_(job), meshes_(meshes), modules_(modules) {}

  std::vector<pytorch::ShardUnit> build() {
    std::vector<std::size_t> outer;  // embedding, norm and head
    for (std::size_t at = 0; at < modules_.size(); ++at) {
      if (modules_[at].kind == Kind::block) {
        blocks_.push_back(at);
      } else {
        outer.push_back(at);
      }
    }
    if (job_.model.tied_embeddings) {
      add(outer, keeps_head());
    } else {
      for (const std::size_t at : outer) {
        if (modules_[at].kind == Kind::embedding) {
          add({at}, reshards());
        } else if (modules_[at].kind == Kind::norm) {
          add({at, at + 1}, keeps_head());
        }
      }
    }
    std::int64_t place = 0;
    for (const std::size_t at : blocks_) {
      add({at}, reshards());
      units_.back().block = place++;
    }
    std::sort(units_.begin(), units_.end(),
              [](const pytorch::ShardUnit& a, const pytorch::ShardUnit& b) { return a.modules < b.modules; });
    if (job_.layout.ep > 1) {
      prefetch();
    }
    return std::move(units_);
  }

 private:
  bool reshards() const {
    const Reshard policy = options(job_).reshard_after_forward;
    return policy == Reshard::always || (policy == Reshard::by_default && job_.layout.pp == 1);
  }
  bool keeps_head() const { return options(job_).reshard_after_forward == Reshard::always; }

  void add(const std::vector<std::size_t>& modules, bool reshards) {
    pytorch::ShardUnit unit{.modules = modules, .reshards_after_forward = reshards};
    pytorch::ShardGroup dense{.mesh = meshes_.dense};
    pytorch::ShardGroup experts{.mesh = meshes_.experts};
    for (const std::size_t at : modules) {
      for (const Parameter& parameter : modules_[at].parameters) {
        const bool is_apart = parameter.is_expert && job_.layout.ep > 1;
        (is_apart ? experts : dense).parameters.push_back(&parameter);
      }
    }
    if (dense.parameters.empty()) {
      return;
    }
    unit.groups.push_back(std::move(dense));
    if (!experts.parameters.empty()) {
      unit.groups.push_back(std::move(experts));
    }
    units_.push_back(std::move(unit));
  }

  /// Each unit fetches the next one, and in the backward pass the one before: copies of sizes to the host
  /// would delay what is prefetched by itself.
  void prefetch() {
    const auto find = [&](Kind kind) {
      const auto found = std::find_if(units_.begin(), units_.end(), [&](const pytorch::ShardUnit& unit) {
        return std::any_of(unit.modules.begin(), unit.modules.end(),
                           [&](std::size_t at) { return modules_[at].kind == kind; });
      });
      return found == units_.end() ? nullptr : &*found;
    };
    pytorch::ShardUnit* const first = find(Kind::embedding);
    pytorch::ShardUnit* const last = find(Kind::output);
    for (pytorch::ShardUnit& unit : units_) {
      if (unit.block < 0) {
        continue;
      }
      const auto at = static_cast<std::size_t>(unit.block);
      if (at + 1 < blocks_.size()) {
        unit.forward_prefetch = {blocks_[at + 1]};
      } else if (last != nullptr) {
        unit.forward_prefetch = {last->modules.back()};
      }
      if (at > 0) {
        unit.backward_prefetch = {blocks_[at - 1]};
      } else if (first != nullptr) {
        unit.backward_prefetch = {first->modules.front()};
      }
    }
    if (first != nullptr && !blocks_.empty()) {
      first->forward_prefetch = {blocks_.front()};
    }
    if (last != nullptr && !blocks_.empty()) {
      last->backward_prefetch = {blocks_.back()};
    }
  }

  const Job& job_;
  const Meshes& meshes_;
  const std::vector<Module>& modules_;
  std::vector<std::size_t> blocks_;
  std::vector<pytorch::ShardUnit> units_;
};

}  // namespace

std::vector<pytorch::ShardUnit> shard_units(const Job& job, const Meshes& meshes,
                                            const std::vector<Module>& modules) {
  return UnitBuilder(job, meshes, modules).build();
}

}  // namespace commlens::torchtitan
