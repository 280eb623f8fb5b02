#include "commlens/search/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace commlens {
namespace {

/// Of a layout that may be equal to the fastest.
struct NearLayout {
  double seconds = 0;
  double spread = 0;
  std::array<std::int32_t, k_spans.size()> values{};  // in the order of k_spans
};

NearLayout near_of(const RankedLayout& ranked, double spread) {
  const RunLayout& layout = ranked.layout;
  const auto small = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  return {ranked.seconds,
          spread,
          {small(layout.tensor), small(layout.pipeline), small(layout.context), small(layout.data()),
           small(layout.expert), small(layout.micro_batch)}};
}

bool is_better(double seconds, double memory, const RankedLayout& than) {
  return seconds < than.seconds || (seconds == than.seconds && memory < than.memory_bytes);
}

/// Selective recomputation drops the scores of attention, which a fused kernel does not keep anyway.
bool is_pointless(const TrainingRun& run) {
  return run.behaviour.recompute == Recompute::selective && run.behaviour.has_fused_attention;
}

RankedLayout ranked(const EvaluatedLayout& layout) {
  return {layout.run.layout, layout.run.behaviour, layout.time, layout.seconds, layout.memory_bytes};
}

/// Keeps what is worth keeping of layouts as they come.
class RankingBuilder {
 public:
  RankingBuilder(std::span<const TimedSpace> spaces, const RankingLimits& limits)
      : spaces_(spaces), limits_(limits) {
    for (const TimedSpace& each : spaces) {
      widest_spread_ = std::max(widest_spread_, each.basis.spread);
    }
  }

  void add(const EvaluatedLayout& layout) {
    if (layout.shape != shape_) {
      close_shape();
      shape_ = layout.shape;
    }
    const bool fits = layout.memory_bytes <= limits_.memory_bytes;
    result_.fitting += fits ? 1 : 0;
    if (!is_pointless(layout.run)) {
      if (fits) {
        keep_better(best_of_shape_, layout);
      }
      if (layout.memory_bytes <= 2 * limits_.memory_bytes) {
        keep_better(result_.with_twice, layout);
      }
    }
    if (layout.memory_bytes < least_memory_) {
      least_memory_ = layout.memory_bytes;
      result_.smallest = ranked(layout);
    }
  }

  /// Shapes of the next space are others.
  void close_space() {
    close_shape();
    shape_ = 0;
  }

  Ranking finished(std::int64_t evaluated) {
    result_.evaluated = evaluated;
    std::reverse(result_.front.begin(), result_.front.end());
    if (!result_.fastest.empty()) {
      count_equal();
      if (result_.with_twice && result_.with_twice->seconds >= result_.fastest.front().seconds) {
        result_.with_twice.reset();
      }
    }
    return std::move(result_);
  }

 private:
  static void keep_better(std::optional<RankedLayout>& kept, const EvaluatedLayout& layout) {
    if (!kept || is_better(layout.seconds, layout.memory_bytes, *kept)) {
      kept = ranked(layout);
    }
  }

  void close_shape() {
    if (!best_of_shape_) {
      return;
    }
    const RankedLayout& shape = *best_of_shape_;
    add_to_fastest(shape);
    add_to_front(shape);
    const NearLayout near = near_of(shape, spread_of_kind(shape.layout.data_kind));
    if (may_be_near(near)) {
      near_.push_back(near);
    }
    if (near_.size() >= most_near_) {
      drop_far();
      most_near_ = std::max(most_near_, 2 * near_.size());
    }
    best_of_shape_.reset();
  }

  void add_to_fastest(const RankedLayout& shape) {
    std::vector<RankedLayout>& fastest = result_.fastest;
    const auto place = std::upper_bound(fastest.begin(), fastest.end(), shape,
                                        [](const RankedLayout& added, const RankedLayout& each) {
                                          return is_better(added.seconds, added.memory_bytes, each);
                                        });
    if (place == fastest.end() && fastest.size() >= limits_.most) {
      return;
    }
    fastest.insert(place, shape);
    if (fastest.size() > limits_.most) {
      fastest.pop_back();
    }
  }

  /// The front is kept by memory, ascending: times then fall.
  void add_to_front(const RankedLayout& shape) {
    std::vector<RankedLayout>& front = result_.front;
    const auto place =
        std::upper_bound(front.begin(), front.end(), shape.memory_bytes,
                         [](double memory, const RankedLayout& each) { return memory < each.memory_bytes; });
    if (place != front.begin() && std::prev(place)->seconds <= shape.seconds) {
      return;
    }
    const auto last = std::find_if(place, front.end(),
                                   [&](const RankedLayout& each) { return each.seconds < shape.seconds; });
    auto first = place;
    while (first != front.begin() && std::prev(first)->memory_bytes == shape.memory_bytes) {
      --first;
    }
    front.insert(front.erase(first, last), shape);
  }

  double spread_of_kind(DataParallelKind kind) const { return space_of(spaces_, kind).basis.spread; }

  bool is_equal(const NearLayout& layout) const {
    const RankedLayout& first = result_.fastest.front();
    return is_near_fastest(layout.seconds, layout.spread, first.seconds,
                           spread_of_kind(first.layout.data_kind));
  }

  /// Of the layout that is the fastest in the end, which may be of any kind.
  bool may_be_near(const NearLayout& layout) const {
    return layout.seconds <= result_.fastest.front().seconds * std::exp(widest_spread_);
  }

  void drop_far() {
    std::erase_if(near_, [&](const NearLayout& each) { return !may_be_near(each); });
  }

  void count_equal() {
    std::erase_if(near_, [&](const NearLayout& each) { return !is_equal(each); });
    result_.equal = static_cast<std::int64_t>(near_.size());
    for (std::size_t index = 0; index < k_spans.size(); ++index) {
      const auto [least, most] = std::minmax_element(
          near_.begin(), near_.end(),
          [&](const NearLayout& a, const NearLayout& b) { return a.values[index] < b.values[index]; });
      result_.spans[index] = {least->values[index], most->values[index]};
    }
  }

  std::span<const TimedSpace> spaces_;
  RankingLimits limits_;
  double widest_spread_ = 0;
  Ranking result_;
  std::optional<RankedLayout> best_of_shape_;
  std::vector<NearLayout> near_;
  std::size_t most_near_ = std::size_t{1} << 16;  // then those that are no longer near are dropped
  std::int64_t shape_ = 0;
  double least_memory_ = std::numeric_limits<double>::infinity();
};

}  // namespace

bool is_near_fastest(double seconds, double spread, double least, double spread_of_least) {
  return seconds <= least * std::exp(std::max(spread, spread_of_least));
}

Ranking ranked_layouts(std::span<const TimedSpace> spaces, const RankingLimits& limits) {
  RankingBuilder builder(spaces, limits);
  std::int64_t evaluated = 0;
  for (const TimedSpace& each : spaces) {
    evaluated += for_each_layout(each.base, each.basis.coefficients, each.space,
                                 [&](const EvaluatedLayout& layout) { builder.add(layout); });
    builder.close_space();
  }
  return builder.finished(evaluated);
}

TrainingRun run_of(const TrainingRun& base, const RankedLayout& layout) {
  TrainingRun run = base;
  run.model.layers = padded_layers(base.model.layers, layout.layout.pipeline);
  run.layout = layout.layout;
  run.behaviour = layout.behaviour;
  return run;
}

}  // namespace commlens
