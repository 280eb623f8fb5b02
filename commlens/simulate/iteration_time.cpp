#include "commlens/simulate/iteration_time.hpp"

#include <algorithm>
#include <cmath>

#include "commlens/simulate/iteration_parts.hpp"
#include "commlens/simulate/ring.hpp"

namespace commlens {
namespace {

constexpr double k_bucket_bytes = 5e8;      // of gradients that are reduced together
constexpr double k_jitter = 0.002;          // stragglers, of the time, for each doubling of the nodes
constexpr double k_hidden_message = 0.15;   // what is left of pipeline messages that computing hides
constexpr double k_scatter_room = 2.0 / 3;  // of the room that gradients hide in: the backward pass
constexpr double k_gather_room = 1.0 / 3;   // parameters: the forward pass

double count_of(std::int64_t value) { return static_cast<double>(value); }

/// Time of computing and of messages under it: what does not fit is added, what does makes computing slower.
double overlapped(const Coefficients& with, double compute, double messages) {
  const double hidden = std::min(messages, with[Coefficient::overlap] * compute);
  return messages - hidden + with[Coefficient::contention] * hidden;
}

/// Messages that a layer's sharded parameters cost beyond its computing, for each micro-batch.
double sharding_seconds(const TrainingRun& run, const Coefficients& with, const LayerTime& layer,
                        double parameters) {
  const RunLayout& layout = run.layout;
  const std::int64_t group = layout.shard_group > 0 ? layout.shard_group : layout.data();
  const RingGroup shards = ring_group(run.hardware, group, layout.tensor);
  RingGroup backward_shards = shards;
  if (layout.gathers_inside_node) {
    backward_shards = ring_group(run.hardware, std::min(group, run.hardware.node), layout.tensor);
  }
  const double gather = ring_seconds(run.hardware, with, shards, 2 * parameters);
  const double again = layout.data_kind == DataParallelKind::sharded_until_backward
                           ? 0
                           : ring_seconds(run.hardware, with, backward_shards, 2 * parameters);
  const double scatter = ring_seconds(run.hardware, with, shards, run.behaviour.gradient_bytes * parameters);
  return overlapped(with, layer.forward.total(), gather) +
         overlapped(with, layer.backward.total() + layer.repeated.total(), again + scatter);
}

}  // namespace

void add_layers(StageTime& stage, const TrainingRun& run, const Coefficients& with, double layers,
                const LayerCost& cost) {
  if (layers <= 0) {
    return;
  }
  const LayerTime& layer = cost.time;
  const LayerParameters& parameters = cost.parameters;
  const double messages = is_sharded(run.layout.data_kind)
                              ? sharding_seconds(run, with, layer, parameters.shared + parameters.experts)
                              : 0;
  const double floor = with[Coefficient::launch_floor] * 1e-6 * (run.behaviour.has_graphs ? 0.4 : 1);
  const double seconds = layer.forward.total() + layer.repeated.total() + layer.backward.total() + messages;
  stage.layers += layers;
  stage.seconds += layers * std::max(seconds, floor);
  stage.sharding += layers * messages;
  for (const PassTime* pass : {&layer.forward, &layer.repeated, &layer.backward}) {
    stage.exposed += layers * (pass->tensor + pass->context + pass->exchange);
  }
  stage.parameters.shared += layers * parameters.shared;
  stage.parameters.experts += layers * parameters.experts;
}

LayerCost layer_cost(const TrainingRun& run, const Coefficients& with, bool has_experts) {
  return {layer_time(run, with, has_experts), layer_parameters(run, has_experts)};
}

StageLayers layers_of_stage(const TrainingRun& run) {
  const double stages = count_of(run.layout.pipeline);
  const bool has_experts = run.model.experts > 1;
  const double dense = has_experts ? count_of(run.model.dense_layers) : count_of(run.model.layers);
  return {dense / stages, (count_of(run.model.layers) - dense) / stages};
}

namespace {

StageTime stage_time(const TrainingRun& run, const Coefficients& with) {
  StageTime stage;
  const StageLayers layers = layers_of_stage(run);
  for (const bool has_experts : {false, true}) {
    const double count = has_experts ? layers.mixtures : layers.dense;
    if (count > 0) {
      add_layers(stage, run, with, count, layer_cost(run, with, has_experts));
    }
  }
  return stage;
}

/// Parameters of the embeddings on a device of the stage that has most of them.
double embedding_parameters(const TrainingRun& run) {
  const double one = count_of(run.model.vocab) * count_of(run.model.hidden) / count_of(run.layout.tensor);
  return run.layout.pipeline == 1 && !run.model.has_tied_embeddings ? 2 * one : one;
}

double bucketed(const TrainingRun& run, const Coefficients& with, RingGroup group, double bytes) {
  double seconds = 0;
  const double whole = std::floor(bytes / k_bucket_bytes);
  seconds += whole * ring_seconds(run.hardware, with, group, k_bucket_bytes);
  return seconds + ring_seconds(run.hardware, with, group, bytes - whole * k_bucket_bytes);
}

/// Once for each iteration: reduction of gradients and, where ranks keep parts of the optimizer, the gather
/// of parameters, of so many parameters of a device.
struct DataMessages {
  double scatter = 0;
  double gather = 0;
};

DataMessages data_messages(const TrainingRun& run, const Coefficients& with, RingGroup group,
                           double parameters) {
  DataMessages messages;
  messages.scatter = bucketed(run, with, group, run.behaviour.gradient_bytes * parameters);
  if (run.layout.data_kind == DataParallelKind::replicated) {
    messages.gather = messages.scatter;
    return messages;
  }
  messages.scatter *= run.behaviour.reduces_to_all ? 2 : 1;
  messages.gather = bucketed(run, with, group, 2 * parameters);
  return messages;
}

/// What the pipeline's last micro-batch leaves to hide messages under: a chunk's gradients are final early.
double hidden_seconds(const TrainingRun& run, const Coefficients& with, const StageTime& stage,
                      double messages, double share) {
  const double chunks = count_of(run.layout.virtual_stages);
  const double final_early = count_of(std::min(run.layout.pipeline, run.layout.micro_batches()));
  const double room = stage.seconds * (1 + final_early * (chunks - 1) / chunks);
  const double last = chunks > 1 ? 1 / chunks : 1 / std::max(stage.layers, 1.0);
  return std::min(messages * (1 - last), with[Coefficient::overlap] * room * share);
}

double exposed(const Coefficients& with, double messages, double hidden) {
  return messages - hidden + with[Coefficient::contention] * hidden;
}

/// Ranks of a group own parameters and broadcast them to each other; gradients are reduced to the owner.
DataWork owner_work(const TrainingRun& run, const Coefficients& with, double parameters) {
  const RunLayout& layout = run.layout;
  const std::int64_t group = layout.shard_group > 0 ? layout.shard_group : layout.data();
  const RingGroup all = ring_group(run.hardware, layout.data(), layout.tensor);
  const RingGroup owners = ring_group(run.hardware, group, layout.tensor);
  DataWork work;
  work.scatter = 2 * bucketed(run, with, all, run.behaviour.gradient_bytes * parameters);
  work.hides_scatter = true;
  work.beside =
      bucketed(run, with, owners, 2 * parameters) + with[Coefficient::owner] * 1e-3 * count_of(group);
  return work;
}

double replica_seconds(const TrainingRun& run, const Coefficients& with, double parameters) {
  const RunLayout& layout = run.layout;
  const std::int64_t group = layout.shard_group > 0 ? layout.shard_group : layout.data();
  const RingGroup replicas = ring_group(run.hardware, layout.data() / group, layout.tensor * group);
  return 2 * ring_seconds(run.hardware, with, replicas,
                          run.behaviour.gradient_bytes * parameters / count_of(group));
}

}  // namespace

DataWork data_work(const TrainingRun& run, const Coefficients& with, const LayerParameters& parameters) {
  const RunLayout& layout = run.layout;
  const double shared = parameters.shared + embedding_parameters(run);
  if (is_sharded(run.layout.data_kind)) {
    DataWork work;
    work.beside = replica_seconds(run, with, shared + parameters.experts);
    return work;
  }
  if (layout.data_kind == DataParallelKind::owners) {
    return owner_work(run, with, shared + parameters.experts);
  }
  const RingGroup group = ring_group(run.hardware, layout.data() * layout.context, layout.tensor);
  const DataMessages messages = data_messages(run, with, group, shared);
  const std::int64_t model_ranks = layout.expert * layout.expert_tensor;
  const std::int64_t replicas = layout.data() * layout.context * layout.tensor / model_ranks;
  const DataMessages experts =
      data_messages(run, with, ring_group(run.hardware, replicas, model_ranks), parameters.experts);
  DataWork work;
  work.scatter = messages.scatter + experts.scatter;
  work.gather = messages.gather + experts.gather;
  work.hides_scatter = run.behaviour.overlaps_gradients;
  work.hides_gather = run.behaviour.overlaps_parameters;
  return work;
}

namespace {

double data_seconds(const TrainingRun& run, const Coefficients& with, const StageTime& stage,
                    const DataWork& work) {
  const double hidden_scatter =
      work.hides_scatter ? hidden_seconds(run, with, stage, work.scatter, k_scatter_room) : 0;
  const double hidden_gather =
      work.hides_gather ? hidden_seconds(run, with, stage, work.gather, k_gather_room) : 0;
  return exposed(with, work.scatter, hidden_scatter) + exposed(with, work.gather, hidden_gather) +
         work.beside;
}

/// Over how many ranks the optimizer's states of a device are spread.
double optimizer_ranks(const TrainingRun& run) {
  const RunLayout& layout = run.layout;
  if (layout.data_kind == DataParallelKind::replicated) {
    return 1;
  }
  if (layout.shard_group > 0 && layout.data_kind != DataParallelKind::optimizer) {
    return count_of(layout.shard_group);
  }
  return count_of(layout.data() * layout.context);
}

}  // namespace

double optimizer_seconds(const TrainingRun& run, const Coefficients& with,
                         const LayerParameters& parameters) {
  const RunLayout& layout = run.layout;
  const double ranks = optimizer_ranks(run);
  const double expert_ranks =
      std::max(ranks * count_of(layout.tensor) / count_of(layout.expert * layout.expert_tensor), 1.0);
  const double updated = (parameters.shared + embedding_parameters(run)) / ranks +
                         parameters.experts / (ranks > 1 ? expert_ranks : 1);
  const double bytes =
      run.behaviour.has_host_optimizer ? with[Coefficient::host_bytes] : with[Coefficient::optimizer_bytes];
  return bytes * updated / run.hardware.memory_bandwidth;
}

/// Gradients of embeddings that the first and the last stage share are reduced between both.
double tied_seconds(const TrainingRun& run, const Coefficients& with) {
  if (run.layout.pipeline <= 1 || !run.model.has_tied_embeddings) {
    return 0;
  }
  const RingGroup ends{2, run.layout.ranks <= run.hardware.domain ? 2 : 1};
  return 2 * ring_seconds(run.hardware, with, ends, run.behaviour.gradient_bytes * embedding_parameters(run));
}

/// Time of computing while all but one of the stages wait, over that while all compute.
double rested(const TrainingRun& run) {
  const double waiting = 1 - 1 / count_of(run.layout.pipeline);
  const double busy = run.hardware.busy_share;
  return busy / (busy + (1 - busy) * waiting);
}

double stage_message(const TrainingRun& run, const Coefficients& with) {
  const RunLayout& layout = run.layout;
  if (layout.pipeline <= 1) {
    return 0;
  }
  const double tokens =
      count_of(layout.micro_batch) * count_of(run.model.sequence) / count_of(layout.context);
  const double bytes =
      2 * tokens * count_of(run.model.hidden) / (layout.has_sequence_parallel ? count_of(layout.tensor) : 1);
  const bool in_domain = layout.ranks <= run.hardware.domain;
  return message_seconds(run.hardware, with, in_domain, bytes);
}

namespace {

double pipeline_messages(const TrainingRun& run, double message) {
  const RunLayout& layout = run.layout;
  const double shown = run.behaviour.overlaps_point_to_point ? k_hidden_message : 1;
  const double messages = count_of(layout.micro_batches()) * count_of(layout.virtual_stages) * shown +
                          count_of(layout.pipeline - 1);
  return 2 * message * messages;
}

}  // namespace

IterationTime combined(const TrainingRun& run, const Coefficients& with, const IterationParts& parts) {
  const RunLayout& layout = run.layout;
  const StageTime& stage = parts.stage;
  const double logits = parts.logits;
  const double micro_batches = count_of(layout.micro_batches());
  const double slowest = stage.seconds + logits;
  const double filling =
      (count_of(layout.pipeline) * stage.seconds + logits - slowest) / count_of(layout.virtual_stages);
  IterationTime time;
  time.tensor = micro_batches * stage.exposed;
  time.compute = micro_batches * (slowest - stage.exposed - stage.sharding);
  time.bubble = filling * rested(run);
  time.stages = pipeline_messages(run, parts.message);
  time.data =
      data_seconds(run, with, stage, parts.data) + tied_seconds(run, with) + micro_batches * stage.sharding;
  time.optimizer = parts.optimizer;
  time.other = with[Coefficient::step] * 1e-3 +
               with[Coefficient::micro_batch] * 1e-3 * micro_batches * count_of(layout.virtual_stages);
  const double nodes = std::max(count_of(layout.ranks) / count_of(run.hardware.node), 1.0);
  time.other += time.total() * k_jitter * std::log2(nodes);
  return time;
}

IterationTime iteration_time(const TrainingRun& run, const Coefficients& with) {
  const StageTime stage = stage_time(run, with);
  return combined(run, with,
                  {stage, logits_seconds(run, with), data_work(run, with, stage.parameters),
                   optimizer_seconds(run, with, stage.parameters), stage_message(run, with)});
}

}  // namespace commlens
