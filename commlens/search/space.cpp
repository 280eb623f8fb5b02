#include "commlens/search/space.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace commlens {
namespace {

bool divides(std::int64_t part, std::int64_t whole) { return part > 0 && whole % part == 0; }

bool takes_tensor(const RunModel& model, std::int64_t tensor) {
  const bool fits_heads =
      divides(tensor, model.heads) && (divides(tensor, model.kv_heads) || divides(model.kv_heads, tensor));
  return fits_heads && divides(tensor, model.hidden) && (model.ffn == 0 || divides(tensor, model.ffn));
}

bool takes_stages(const RunModel& model, std::int64_t pipeline) {
  constexpr std::int64_t most_added = 10;  // one of so many layers
  return pipeline <= model.layers &&
         most_added * (padded_layers(model.layers, pipeline) - model.layers) <= model.layers;
}

bool takes_context(const RunModel& model, const SearchSpace& space, std::int64_t context) {
  return context == 1 ||
         (divides(2 * context, model.sequence) && model.sequence / context >= space.shortest_context);
}

/// Adds all numbers of stages on so many tensor and context ranks.
void add_stages(std::vector<Degrees>& all, const TrainingRun& run, std::int64_t tensor,
                std::int64_t context) {
  const std::int64_t ranks = run.layout.ranks / (tensor * context);
  for (const std::int64_t pipeline : divisors_of(ranks)) {
    const std::int64_t data = ranks / pipeline;
    if (takes_stages(run.model, pipeline) && divides(data, run.layout.global_batch)) {
      all.push_back({tensor, context, pipeline, data});
    }
  }
}

/// Groups that parameters can be sharded over, besides all ranks.
std::vector<std::int64_t> shard_groups(const TrainingRun& run, const SearchSpace& space,
                                       const Degrees& degrees) {
  std::vector<std::int64_t> groups = {0};
  const std::int64_t in_domain = run.hardware.domain / degrees.tensor;
  for (const std::int64_t group : divisors_of(degrees.data)) {
    const bool is_inside = group > 1 && group < degrees.data;
    if (is_inside && (space.has_every_shard_group || group == in_domain)) {
      groups.push_back(group);
    }
  }
  return groups;
}

template <typename Item>
bool holds(const std::vector<Item>& list, const Item& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

}  // namespace

std::vector<std::int64_t> divisors_of(std::int64_t value) {
  std::vector<std::int64_t> small;
  std::vector<std::int64_t> large;
  for (std::int64_t part = 1; part * part <= value; ++part) {
    if (value % part == 0) {
      small.push_back(part);
      if (part * part != value) {
        large.push_back(value / part);
      }
    }
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

std::int64_t padded_layers(std::int64_t layers, std::int64_t pipeline) {
  return (layers + pipeline - 1) / pipeline * pipeline;
}

std::vector<Degrees> degrees_of(const TrainingRun& run, const SearchSpace& space) {
  std::vector<Degrees> all;
  for (const std::int64_t tensor : divisors_of(run.layout.ranks)) {
    if (!takes_tensor(run.model, tensor)) {
      continue;
    }
    for (const std::int64_t context : divisors_of(run.layout.ranks / tensor)) {
      if (takes_context(run.model, space, context)) {
        add_stages(all, run, tensor, context);
      }
    }
  }
  return all;
}

std::vector<ExpertDegrees> expert_degrees_of(const TrainingRun& run, const Degrees& degrees) {
  if (run.model.experts <= 1) {
    return {{1, degrees.tensor}};
  }
  std::vector<ExpertDegrees> all;
  const std::int64_t ranks = degrees.data * degrees.context * degrees.tensor;
  for (const std::int64_t expert : divisors_of(run.model.experts)) {
    for (const std::int64_t tensor : divisors_of(degrees.tensor)) {
      const bool is_tried = tensor == 1 || tensor == degrees.tensor;
      if (is_tried && divides(expert * tensor, ranks) && divides(tensor, run.model.expert_ffn)) {
        all.push_back({expert, tensor});
      }
    }
  }
  return all;
}

std::vector<DataKind> data_kinds_of(const TrainingRun& run, const SearchSpace& space,
                                    const Degrees& degrees) {
  std::vector<DataKind> all;
  for (const DataParallelKind kind : space.kinds) {
    const bool has_groups = is_sharded(kind) || kind == DataParallelKind::owners;
    if (!has_groups) {
      all.push_back({kind, 0});
    } else if (degrees.pipeline == 1 || kind == DataParallelKind::owners) {
      for (const std::int64_t group : shard_groups(run, space, degrees)) {
        all.push_back({kind, group});
      }
    }
  }
  if (degrees.data * degrees.context == 1 && !all.empty()) {
    all.resize(space.needs_data_ranks ? 0 : 1);
  } else if (degrees.data == 1) {
    // Context ranks share the optimizer, but no gathered parameters.
    std::erase_if(all, [](const DataKind& each) { return is_sharded(each.kind); });
  }
  return all;
}

std::vector<std::int64_t> micro_batches_of(const TrainingRun& run, const SearchSpace& space,
                                           const Degrees& degrees) {
  std::vector<std::int64_t> all = divisors_of(run.layout.global_batch / degrees.data);
  std::erase_if(all, [&](std::int64_t sequences) { return sequences > space.largest_micro_batch; });
  return all;
}

std::vector<std::int64_t> virtual_stages_of(const TrainingRun& run, const Degrees& degrees,
                                            std::int64_t micro_batches) {
  if (degrees.pipeline == 1 || !divides(degrees.pipeline, micro_batches)) {
    return {1};
  }
  return divisors_of(padded_layers(run.model.layers, degrees.pipeline) / degrees.pipeline);
}

std::vector<LayoutSwitches> switches_of(const TrainingRun& run, const Degrees& degrees,
                                        const ExpertDegrees& experts) {
  std::vector<LayoutSwitches> all;
  for (const bool overlaps_exchange : {false, true}) {
    if (overlaps_exchange && experts.expert == 1) {
      continue;
    }
    if (degrees.tensor == 1 || run.model.experts <= 1) {
      all.push_back({false, false, overlaps_exchange});
    }
    if (degrees.tensor > 1) {
      all.push_back({true, false, overlaps_exchange});
      all.push_back({true, true, overlaps_exchange});
    }
  }
  return all;
}

std::string why_not(const TrainingRun& run, const SearchSpace& space) {
  const RunLayout& layout = run.layout;
  const std::int64_t parts = layout.tensor * layout.context * layout.pipeline;
  if (!divides(parts, layout.ranks)) {
    return fmt::format("{} devices are no multiple of {}", layout.ranks, parts);
  }
  const Degrees degrees{layout.tensor, layout.context, layout.pipeline, layout.data()};
  if (!holds(degrees_of(run, space), degrees)) {
    return "the model or the batch cannot be divided that way";
  }
  const ExpertDegrees experts{layout.expert, layout.expert_tensor};
  if (!holds(expert_degrees_of(run, degrees), experts)) {
    return "the experts cannot be divided that way";
  }
  if (!holds(data_kinds_of(run, space, degrees), {layout.data_kind, layout.shard_group})) {
    return "data ranks cannot share that way";
  }
  if (!holds(micro_batches_of(run, space, degrees), layout.micro_batch)) {
    return "the micro-batch does not divide the sequences of a data rank";
  }
  if (!holds(virtual_stages_of(run, degrees, layout.micro_batches()), layout.virtual_stages)) {
    return "the stages cannot be divided into chunks that way";
  }
  const LayoutSwitches switches{layout.has_sequence_parallel, run.behaviour.overlaps_tensor,
                                run.behaviour.overlaps_exchange};
  return holds(switches_of(run, degrees, experts), switches) ? "" : "these switches do not go together";
}

void set_degrees(TrainingRun& run, std::int64_t layers, const Degrees& degrees,
                 const ExpertDegrees& experts) {
  run.model.layers = padded_layers(layers, degrees.pipeline);
  run.layout.tensor = degrees.tensor;
  run.layout.context = degrees.context;
  run.layout.pipeline = degrees.pipeline;
  run.layout.expert = experts.expert;
  run.layout.expert_tensor = experts.tensor;
}

void set_kind(TrainingRun& run, const SearchSpace& space, const DataKind& kind) {
  run.layout.data_kind = kind.kind;
  run.layout.shard_group = kind.group;
  run.behaviour.has_host_optimizer = space.has_host_optimizer_of_shards && is_sharded(kind.kind);
}

void set_switches(TrainingRun& run, const LayoutSwitches& switches) {
  run.layout.has_sequence_parallel = switches.has_sequence_parallel;
  run.behaviour.overlaps_tensor = switches.overlaps_tensor;
  run.behaviour.overlaps_exchange = switches.overlaps_exchange;
}

}  // namespace commlens
