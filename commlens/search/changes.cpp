#include "commlens/search/changes.hpp"

#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/format.h>

namespace commlens {
namespace {

/// Collects the runs that a layout's single changes make.
class ChangeList {
 public:
  ChangeList(std::span<const TimedSpace> spaces, const RankedLayout& layout, double memory_limit)
      : layers_(spaces.front().base.model.layers),
        spaces_(spaces),
        run_(run_of(space_of(spaces, layout.layout.data_kind).base, layout)),
        memory_limit_(memory_limit) {}

  const TrainingRun& run() const { return run_; }

  void try_value(std::string_view setting, std::string from, std::string to,
                 const std::function<void(TrainingRun&)>& change) {
    TrainingRun changed = run_;
    change(changed);
    const TimedSpace& space = space_of(spaces_, changed.layout.data_kind);
    changed = run_in_space(std::move(changed), space);
    TrainingRun unpadded = changed;
    unpadded.model.layers = layers_;
    if (!why_not(unpadded, space.space).empty()) {
      return;
    }
    LayoutChange result{std::string(setting), std::move(from), std::move(to), {}, true};
    result.layout = {changed.layout, changed.behaviour, iteration_time(changed, space.basis.coefficients), 0,
                     memory_bytes_of(changed)};
    result.layout.seconds = result.layout.time.total();
    result.fits = result.layout.memory_bytes <= memory_limit_;
    changes_.push_back(std::move(result));
  }

  /// A degree that is halved or doubled; data ranks make up for it.
  void try_degree(std::string_view setting, std::int64_t RunLayout::* degree) {
    const std::int64_t now = run_.layout.*degree;
    for (const std::int64_t value : {now / 2, 2 * now}) {
      if (value >= 1 && value != now && (value == 2 * now || now % 2 == 0)) {
        try_value(setting, fmt::format("{}", now), fmt::format("{}", value), [&](TrainingRun& changed) {
          changed.layout.*degree = value;
          settle(changed);
        });
      }
    }
  }

  /// The neighbours of `now` in a list.
  void try_neighbours(std::string_view setting, const std::vector<std::int64_t>& values,
                      std::int64_t RunLayout::* field) {
    const std::int64_t now = run_.layout.*field;
    const auto place = std::lower_bound(values.begin(), values.end(), now);
    std::vector<std::int64_t> tried;
    if (place != values.begin()) {
      tried.push_back(*std::prev(place));
    }
    if (place != values.end() && std::next(place) != values.end()) {
      tried.push_back(*std::next(place));
    }
    for (const std::int64_t value : tried) {
      try_value(setting, fmt::format("{}", now), fmt::format("{}", value), [&](TrainingRun& changed) {
        changed.layout.*field = value;
        settle_chunks(changed);
      });
    }
  }

  void try_flag(std::string_view setting, bool now, const std::function<void(TrainingRun&)>& turn) {
    try_value(setting, now ? "on" : "off", now ? "off" : "on", turn);
  }

  std::vector<LayoutChange> sorted() {
    std::stable_sort(changes_.begin(), changes_.end(), [](const LayoutChange& a, const LayoutChange& b) {
      return a.fits != b.fits ? a.fits : a.layout.seconds < b.layout.seconds;
    });
    return std::move(changes_);
  }

 private:
  /// What has to follow a changed degree: chunks, and switches that have lost their ranks.
  void settle(TrainingRun& changed) const {
    RunLayout& layout = changed.layout;
    changed.model.layers = padded_layers(layers_, layout.pipeline);
    const bool has_experts = changed.model.experts > 1;
    if (!has_experts || run_.layout.expert_tensor == run_.layout.tensor) {
      layout.expert_tensor = layout.tensor;
    }
    if (layout.tensor == 1) {
      layout.has_sequence_parallel = false;
      changed.behaviour.overlaps_tensor = false;
    } else if (run_.layout.tensor == 1) {
      layout.has_sequence_parallel = true;
    }
    changed.behaviour.overlaps_exchange = changed.behaviour.overlaps_exchange && layout.expert > 1;
    settle_chunks(changed);
  }

  /// As many chunks as the layout can have, at most what it has now.
  static void settle_chunks(TrainingRun& changed) {
    RunLayout& layout = changed.layout;
    const std::int64_t model_ranks = layout.tensor * layout.context * layout.pipeline;
    if (layout.ranks % model_ranks != 0) {
      return;
    }
    const Degrees degrees{layout.tensor, layout.context, layout.pipeline, layout.data()};
    const std::vector<std::int64_t> possible =
        virtual_stages_of(changed, degrees, std::max<std::int64_t>(layout.micro_batches(), 1));
    const auto above = std::upper_bound(possible.begin(), possible.end(), layout.virtual_stages);
    layout.virtual_stages = above == possible.begin() ? 1 : *std::prev(above);
    changed.behaviour.overlaps_point_to_point =
        changed.behaviour.overlaps_point_to_point && layout.virtual_stages > 1;
  }

  std::int64_t layers_;  // of the model, not padded
  std::span<const TimedSpace> spaces_;
  TrainingRun run_;
  double memory_limit_;
  std::vector<LayoutChange> changes_;
};

void try_switches(ChangeList& list) {
  const TrainingRun& run = list.run();
  const RunLayout& layout = run.layout;
  const RunBehaviour& behaviour = run.behaviour;
  list.try_flag("sequence parallelism", layout.has_sequence_parallel, [](TrainingRun& changed) {
    changed.layout.has_sequence_parallel = !changed.layout.has_sequence_parallel;
    changed.behaviour.overlaps_tensor =
        changed.behaviour.overlaps_tensor && changed.layout.has_sequence_parallel;
  });
  if (layout.tensor > 1) {
    list.try_flag("tensor overlap", behaviour.overlaps_tensor, [](TrainingRun& changed) {
      changed.behaviour.overlaps_tensor = !changed.behaviour.overlaps_tensor;
    });
  }
  if (layout.virtual_stages > 1) {
    list.try_flag("stage overlap", behaviour.overlaps_point_to_point, [](TrainingRun& changed) {
      changed.behaviour.overlaps_point_to_point = !changed.behaviour.overlaps_point_to_point;
    });
  }
  if (layout.data() * layout.context > 1 && !is_sharded(layout.data_kind) &&
      layout.data_kind != DataParallelKind::owners) {
    list.try_flag("data overlap", behaviour.overlaps_gradients, [](TrainingRun& changed) {
      changed.behaviour.overlaps_gradients = !changed.behaviour.overlaps_gradients;
      changed.behaviour.overlaps_parameters = changed.behaviour.overlaps_gradients;
    });
  }
}

void try_kinds(ChangeList& list, std::span<const TimedSpace> spaces, const Degrees& degrees) {
  const TrainingRun& run = list.run();
  const RunLayout& now = run.layout;
  for (const TimedSpace& each : spaces) {
    for (const DataKind& kind : data_kinds_of(run, each.space, degrees)) {
      if (!(kind == DataKind{now.data_kind, now.shard_group})) {
        list.try_value("data parallelism", name_of(now.data_kind, now.shard_group),
                       name_of(kind.kind, kind.group),
                       [&](TrainingRun& changed) { set_kind(changed, each.space, kind); });
      }
    }
  }
}

}  // namespace

std::vector<LayoutChange> changes_of(std::span<const TimedSpace> spaces, const RankedLayout& layout,
                                     double memory_limit) {
  ChangeList list(spaces, layout, memory_limit);
  const SearchSpace& space = space_of(spaces, layout.layout.data_kind).space;
  const TrainingRun& run = list.run();
  const RunLayout& now = run.layout;
  const Degrees degrees{now.tensor, now.context, now.pipeline, now.data()};
  list.try_neighbours("micro-batch", micro_batches_of(run, space, degrees), &RunLayout::micro_batch);
  list.try_degree("tp", &RunLayout::tensor);
  list.try_degree("pp", &RunLayout::pipeline);
  list.try_degree("cp", &RunLayout::context);
  if (run.model.experts > 1) {
    list.try_degree("ep", &RunLayout::expert);
  }
  list.try_neighbours("chunks", virtual_stages_of(run, degrees, now.micro_batches()),
                      &RunLayout::virtual_stages);
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    if (recompute != run.behaviour.recompute) {
      list.try_value("recomputation", std::string(name_of(run.behaviour.recompute)),
                     std::string(name_of(recompute)),
                     [&](TrainingRun& changed) { changed.behaviour.recompute = recompute; });
    }
  }
  try_kinds(list, spaces, degrees);
  try_switches(list);
  return list.sorted();
}

std::vector<TimePart> parts_of_time(const IterationTime& time) {
  std::vector<TimePart> parts = {{"compute", time.compute},    {"tensor messages", time.tensor},
                                 {"bubble", time.bubble},      {"stage messages", time.stages},
                                 {"data messages", time.data}, {"optimizer", time.optimizer},
                                 {"other", time.other}};
  std::stable_sort(parts.begin(), parts.end(),
                   [](const TimePart& a, const TimePart& b) { return a.seconds > b.seconds; });
  return parts;
}

std::string name_of(DataParallelKind kind, std::int64_t shard_group) {
  const std::string over = shard_group > 0 ? fmt::format(" over {}", shard_group) : "";
  switch (kind) {
    case DataParallelKind::replicated:
      return "replicated";
    case DataParallelKind::optimizer:
      return "optimizer split";
    case DataParallelKind::owners:
      return "owners" + over;
    case DataParallelKind::sharded:
      return "sharded" + over;
    case DataParallelKind::sharded_until_backward:
      return "sharded until backward" + over;
  }
  return "";
}

std::string_view name_of(Recompute recompute) {
  return recompute == Recompute::none ? "none" : recompute == Recompute::full ? "full" : "selective";
}

std::vector<std::string> overlaps_of(const RunLayout& layout, const RunBehaviour& behaviour) {
  std::vector<std::string> names;
  const auto add = [&](bool is_on, const char* name) {
    if (is_on) {
      names.emplace_back(name);
    }
  };
  const bool has_data = layout.data() * layout.context > 1;
  add(behaviour.overlaps_tensor, "tensor");
  add(behaviour.overlaps_point_to_point, "stages");
  add(has_data && (behaviour.overlaps_gradients || is_sharded(layout.data_kind)), "gradients");
  add(has_data && (behaviour.overlaps_parameters || is_sharded(layout.data_kind)), "parameters");
  add(behaviour.overlaps_exchange, "experts");
  return names;
}

}  // namespace commlens
