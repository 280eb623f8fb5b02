// The units that accelerate makes of a model.
#include <algorithm>

#include "commlens/frameworks/huggingface/options.hpp"
#include "commlens/frameworks/huggingface/writer.hpp"

namespace commlens::huggingface {
namespace {

using pytorch::Module;
using pytorch::ShardUnit;

class UnitBuilder {
 public:
  UnitBuilder(const std::vector<Module>& modules, const pytorch::ShardMesh& mesh)
      : modules_(modules), mesh_(mesh) {}

  ShardUnit unit(const std::vector<std::size_t>& members) const {
    ShardUnit unit;
    unit.groups = {{.parameters = parameters(members), .mesh = mesh_}};
    unit.modules = members;
    std::sort(unit.modules.begin(), unit.modules.end());
    return unit;
  }
  ShardUnit root(const std::vector<std::size_t>& members) const {
    ShardUnit unit;
    unit.groups = {{.parameters = parameters(members), .mesh = mesh_}};
    unit.is_root = true;
    return unit;
  }

 private:
  std::vector<const pytorch::Parameter*> parameters(const std::vector<std::size_t>& members) const {
    std::vector<const pytorch::Parameter*> all;
    for (const std::size_t at : members) {
      for (const pytorch::Parameter& parameter : modules_[at].parameters) {
        all.push_back(&parameter);
      }
    }
    return all;
  }

  const std::vector<Module>& modules_;
  pytorch::ShardMesh mesh_;
};

}  // namespace

std::vector<ShardUnit> shard_units(const Job& job, const std::vector<Module>& modules,
                                   const pytorch::ShardMesh& mesh) {
  const Fsdp& fsdp = options(job).fsdp;
  const UnitBuilder builder(modules, mesh);
  const std::size_t head = modules.size() - 1;
  const std::size_t norm = head - 1;
  const bool wraps_blocks = fsdp.wrap == WrapPolicy::transformer;
  const bool is_first_version = fsdp.version == 1;
  std::vector<std::size_t> rest;  // of the root
  std::vector<ShardUnit> units;
  const auto add_blocks = [&] {
    for (std::size_t at = 1; at < norm; ++at) {
      if (wraps_blocks) {
        units.push_back(builder.unit({at}));
        units.back().block = static_cast<std::int64_t>(at) - 1;
      } else {
        rest.push_back(at);
      }
    }
  };
  if (is_first_version) {
    rest.push_back(0);
    add_blocks();
    rest.insert(rest.end(), {norm, head});
  } else {
    const bool is_tied = job.model.tied_embeddings;
    ShardUnit first =
        builder.unit(is_tied ? std::vector<std::size_t>{norm, 0, head} : std::vector<std::size_t>{0});
    if (is_tied) {
      first.reshards_after_forward = false;
    }
    units.push_back(std::move(first));
    add_blocks();
    if (!is_tied) {
      units.push_back(builder.unit({norm, head}));
      units.back().reshards_after_forward = false;
    }
  }
  if (!rest.empty()) {
    units.insert(units.begin(), builder.root(rest));
  }
  return units;
}

}  // namespace commlens::huggingface
