#include "commlens/search/layouts.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "commlens/simulate/iteration_parts.hpp"
#include "commlens/simulate/run_memory.hpp"

namespace commlens {
namespace {

constexpr std::array<Recompute, 3> k_recomputes = {Recompute::none, Recompute::selective, Recompute::full};

/// Layers of both kinds; a model may lack one.
struct LayerCosts {
  std::optional<LayerCost> dense;
  std::optional<LayerCost> mixture;
};

/// What layouts of the same tensor, context and expert ranks share, worked out when it is first asked for, by
/// the place of the micro-batch in `batches`.
class SharedParts {
 public:
  SharedParts(const Coefficients& with, std::vector<std::int64_t> batches)
      : with_(with), batches_(std::move(batches)) {
    layers_.resize(batches_.size() * k_layer_choices);
    memory_.resize(batches_.size() * k_memory_choices);
    logits_.resize(batches_.size(), -1);
    messages_.resize(batches_.size() * 2, -1);
  }

  std::size_t place_of(std::int64_t micro_batch) const {
    return static_cast<std::size_t>(std::lower_bound(batches_.begin(), batches_.end(), micro_batch) -
                                    batches_.begin());
  }

  const LayerCosts& layers(const TrainingRun& run, std::size_t place) {
    const RunBehaviour& behaviour = run.behaviour;
    const std::size_t accumulates = run.layout.micro_batches() > 1 && !is_sharded(run.layout.data_kind);
    std::size_t choice = static_cast<std::size_t>(behaviour.recompute) * 16 + accumulates * 8;
    choice += (run.layout.has_sequence_parallel ? 4 : 0) + (behaviour.overlaps_tensor ? 2 : 0) +
              (behaviour.overlaps_exchange ? 1 : 0);
    std::optional<LayerCosts>& costs = layers_[place * k_layer_choices + choice];
    if (!costs) {
      const StageLayers layers = layers_of_stage(run);
      costs.emplace();
      if (layers.dense > 0) {
        costs->dense = layer_cost(run, with_, false);
      }
      if (layers.mixtures > 0) {
        costs->mixture = layer_cost(run, with_, true);
      }
    }
    return *costs;
  }

  const MicroBatchMemory& memory(const TrainingRun& run, std::size_t place) {
    const std::size_t choice = static_cast<std::size_t>(run.behaviour.recompute) * 4 +
                               (run.layout.has_sequence_parallel ? 2 : 0) +
                               (is_sharded(run.layout.data_kind) ? 1 : 0);
    std::optional<MicroBatchMemory>& memory = memory_[place * k_memory_choices + choice];
    if (!memory) {
      memory = micro_batch_memory(run);
    }
    return *memory;
  }

  double logits(const TrainingRun& run, std::size_t place) {
    double& seconds = logits_[place];
    return seconds >= 0 ? seconds : seconds = logits_seconds(run, with_);
  }

  /// Of a run with a pipeline.
  double message(const TrainingRun& run, std::size_t place) {
    double& seconds = messages_[place * 2 + (run.layout.has_sequence_parallel ? 1 : 0)];
    return seconds >= 0 ? seconds : seconds = stage_message(run, with_);
  }

 private:
  static constexpr std::size_t k_layer_choices = 48;
  static constexpr std::size_t k_memory_choices = 12;
  const Coefficients& with_;
  std::vector<std::int64_t> batches_;
  std::vector<std::optional<LayerCosts>> layers_;
  std::vector<std::optional<MicroBatchMemory>> memory_;
  std::vector<double> logits_;
  std::vector<double> messages_;
};

/// What does not depend on the micro-batch.
struct KindParts {
  DataKind kind;
  DataWork work;
  double optimizer = 0;
  double states = 0;
};

/// What does not depend on chunks.
struct SwitchParts {
  LayoutSwitches switches;
  IterationParts parts;
  MicroBatchMemory memory;
};

class LayoutLoop {
 public:
  LayoutLoop(const TrainingRun& base, const Coefficients& with, const SearchSpace& space,
             const std::function<void(const EvaluatedLayout&)>& visit)
      : run_(base), layers_(base.model.layers), with_(with), space_(space), visit_(visit) {}

  std::int64_t run() {
    const std::vector<Degrees> all = degrees_of(run_, space_);
    for (auto first = all.begin(); first != all.end();) {
      const auto last = std::find_if(first, all.end(), [&](const Degrees& each) {
        return each.tensor != first->tensor || each.context != first->context;
      });
      same_tensor(std::vector<Degrees>(first, last));
      first = last;
    }
    return count_;
  }

 private:
  /// Layouts of the same tensor and context ranks, by the experts' degrees.
  void same_tensor(const std::vector<Degrees>& all) {
    std::vector<ExpertDegrees> experts;
    std::vector<std::int64_t> batches;
    for (const Degrees& degrees : all) {
      for (const ExpertDegrees& each : expert_degrees_of(run_, degrees)) {
        if (std::find(experts.begin(), experts.end(), each) == experts.end()) {
          experts.push_back(each);
        }
      }
      const std::vector<std::int64_t> sizes = micro_batches_of(run_, space_, degrees);
      batches.insert(batches.end(), sizes.begin(), sizes.end());
    }
    std::sort(batches.begin(), batches.end());
    batches.erase(std::unique(batches.begin(), batches.end()), batches.end());
    for (const ExpertDegrees& each : experts) {
      SharedParts shared(with_, batches);
      for (const Degrees& degrees : all) {
        const std::vector<ExpertDegrees> taken = expert_degrees_of(run_, degrees);
        if (std::find(taken.begin(), taken.end(), each) != taken.end()) {
          same_degrees(shared, degrees, each);
        }
      }
    }
  }

  void same_degrees(SharedParts& shared, const Degrees& degrees, const ExpertDegrees& experts) {
    set_degrees(run_, layers_, degrees, experts);
    const std::vector<KindParts> kinds = kind_parts(degrees);
    const std::vector<LayoutSwitches> switches = switches_of(run_, degrees, experts);
    for (const std::int64_t micro_batch : micro_batches_of(run_, space_, degrees)) {
      run_.layout.micro_batch = micro_batch;
      place_ = shared.place_of(micro_batch);
      chunks_ = virtual_stages_of(run_, degrees, run_.layout.micro_batches());
      for (const KindParts& kind : kinds) {
        set_kind(run_, space_, kind.kind);
        for (const Recompute recompute : k_recomputes) {
          run_.behaviour.recompute = recompute;
          same_recompute(shared, kind, switches);
        }
      }
    }
  }

  std::vector<KindParts> kind_parts(const Degrees& degrees) {
    run_.layout.micro_batch = 1;
    const StageLayers layers = layers_of_stage(run_);
    LayerParameters parameters;
    for (const bool has_experts : {false, true}) {
      const double count = has_experts ? layers.mixtures : layers.dense;
      const LayerParameters layer = count > 0 ? layer_parameters(run_, has_experts) : LayerParameters();
      parameters.shared += count * layer.shared;
      parameters.experts += count * layer.experts;
    }
    std::vector<KindParts> all;
    for (const DataKind& kind : data_kinds_of(run_, space_, degrees)) {
      set_kind(run_, space_, kind);
      all.push_back({kind, data_work(run_, with_, parameters), optimizer_seconds(run_, with_, parameters),
                     state_bytes(run_)});
    }
    return all;
  }

  void same_recompute(SharedParts& shared, const KindParts& kind,
                      const std::vector<LayoutSwitches>& switches) {
    const StageLayers layers = layers_of_stage(run_);
    states_ = kind.states;
    switched_.clear();
    for (const LayoutSwitches& each : switches) {
      set_switches(run_, each);
      SwitchParts& switched = switched_.emplace_back();
      switched.switches = each;
      const LayerCosts& costs = shared.layers(run_, place_);
      if (costs.dense) {
        add_layers(switched.parts.stage, run_, with_, layers.dense, *costs.dense);
      }
      if (costs.mixture) {
        add_layers(switched.parts.stage, run_, with_, layers.mixtures, *costs.mixture);
      }
      switched.parts.logits = shared.logits(run_, place_);
      switched.parts.data = kind.work;
      switched.parts.optimizer = kind.optimizer;
      switched.parts.message = run_.layout.pipeline > 1 ? shared.message(run_, place_) : 0;
      switched.memory = shared.memory(run_, place_);
    }
    for (const std::int64_t chunks : chunks_) {
      run_.layout.virtual_stages = chunks;
      ++shape_;
      same_shape();
    }
  }

  void same_shape() {
    const LayersInFlight in_flight = layers_in_flight(run_);
    const bool has_pipeline = run_.layout.pipeline > 1;
    for (SwitchParts& switched : switched_) {
      set_switches(run_, switched.switches);
      const double memory = device_memory_bytes(has_pipeline, states_, switched.memory, in_flight);
      for (const bool overlaps_messages : {false, true}) {
        // Messages of stages hide under other chunks (Megatron-LM --overlap-p2p-communication).
        if (!overlaps_messages || run_.layout.virtual_stages > 1) {
          run_.behaviour.overlaps_point_to_point = overlaps_messages;
          overlaps_of_data(switched.parts, memory);
        }
      }
    }
  }

  void overlaps_of_data(IterationParts& parts, double memory) {
    const bool has_choice = (run_.layout.data_kind == DataParallelKind::replicated ||
                             run_.layout.data_kind == DataParallelKind::optimizer) &&
                            run_.layout.data() * run_.layout.context > 1;
    if (!has_choice) {
      visit(parts, memory);
      return;
    }
    const RunBehaviour kept = run_.behaviour;
    for (const bool gradients : {false, true}) {
      for (const bool parameters : {false, true}) {
        if (gradients == parameters || space_.has_separate_overlaps) {
          run_.behaviour.overlaps_gradients = parts.data.hides_scatter = gradients;
          run_.behaviour.overlaps_parameters = parts.data.hides_gather = parameters;
          visit(parts, memory);
        }
      }
    }
    run_.behaviour.overlaps_gradients = kept.overlaps_gradients;
    run_.behaviour.overlaps_parameters = kept.overlaps_parameters;
  }

  void visit(const IterationParts& parts, double memory) {
    EvaluatedLayout layout{run_, combined(run_, with_, parts), 0, memory, shape_};
    layout.seconds = layout.time.total();
    ++count_;
    visit_(layout);
  }

  TrainingRun run_;
  std::int64_t layers_;  // of the model, not padded
  const Coefficients& with_;
  const SearchSpace& space_;
  const std::function<void(const EvaluatedLayout&)>& visit_;
  std::vector<SwitchParts> switched_;
  std::vector<std::int64_t> chunks_;
  std::size_t place_ = 0;
  double states_ = 0;
  std::int64_t shape_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace

std::int64_t for_each_layout(const TrainingRun& base, const Coefficients& with, const SearchSpace& space,
                             const std::function<void(const EvaluatedLayout&)>& visit) {
  return LayoutLoop(base, with, space, visit).run();
}

}  // namespace commlens
