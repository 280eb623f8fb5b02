// The layout of ranks: tensor ranks inside a node, and the bubble of a pipeline.
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "commlens/advice/topics.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens {
namespace {

/// A layout that keeps tensor groups inside nodes.
struct Placement {
  Change change;
  Outcome outcome;
};

std::string layout_flags(const Job& job) {
  return fmt::format(
      "--tp {} --pp {} --dp {}{}", job.layout.tp, job.layout.pp, job.layout.dp,
      job.train.micro_batches > 1 ? fmt::format(" --micro-batches {}", job.train.micro_batches) : "");
}

/// The largest tp that divides a node; the remaining factor goes to the pipeline, or to data ranks, which
/// then take fewer micro-batches each.
std::vector<Job> layouts_inside_nodes(const Job& job, std::int64_t ranks_per_node, bool memory_is_known) {
  const std::int64_t tp = std::gcd(job.layout.tp, ranks_per_node);
  const std::int64_t times = job.layout.tp / tp;
  std::vector<Job> jobs;
  Job by_stages = job;
  by_stages.layout.tp = tp;
  by_stages.layout.pp *= times;
  jobs.push_back(std::move(by_stages));
  if (memory_is_known && job.train.micro_batches % times == 0) {
    Job by_data = job;
    by_data.layout.tp = tp;
    by_data.layout.dp *= times;
    by_data.train.micro_batches /= times;
    jobs.push_back(std::move(by_data));
  }
  return jobs;
}

std::vector<Placement> placements(const Study& study) {
  const Job& job = study.job();
  const std::int64_t node = study.options().ranks_per_node;
  std::vector<Placement> found;
  if (job.layout.tp < node) {
    const std::int64_t used = node - node % job.layout.tp;
    if (std::optional<Outcome> outcome = study.on_nodes_of(used)) {
      found.push_back(
          {{.title = "Place whole tensor groups on each node",
            .flag = fmt::format("--gpus-per-node {}", used),
            .setting = fmt::format("start {} ranks on each node instead of {} (slots={} in the hostfile)",
                                   used, node, used)},
           std::move(*outcome)});
    }
  }
  for (Job& changed : layouts_inside_nodes(job, node, study.options().memory.has_value())) {
    if (std::optional<Outcome> outcome = study.outcome(std::move(changed))) {
      Change change{.title = "Keep tensor parallelism inside the node",
                    .flag = layout_flags(outcome->job),
                    .setting = setting_text(outcome->job, Setting::layout)};
      found.push_back({std::move(change), std::move(*outcome)});
    }
  }
  return found;
}

Bytes between_nodes(const Outcome& outcome) { return outcome.cost().all_ranks.wire_inter_node; }

}  // namespace

void advise_tensor_ranks(Study& study) {
  const Job& job = study.job();
  const std::int64_t node = study.options().ranks_per_node;
  if (job.layout.tp == 1) {
    return;
  }
  if (node == 0) {
    return study.cannot_judge("whether tensor groups cross nodes: add --gpus-per-node");
  }
  const bool crosses = job.layout.ranks > node && node % job.layout.tp != 0;
  if (!crosses) {
    return study.leave(fmt::format("tensor groups of {} lie inside nodes of {}", job.layout.tp, node));
  }
  std::optional<Placement> best;
  for (Placement& placement : placements(study)) {
    const bool fits = !study.options().memory || study.fits(placement.outcome.cost());
    const bool saves = between_nodes(placement.outcome) < study.cost().all_ranks.wire_inter_node;
    if (fits && saves && (!best || between_nodes(placement.outcome) < between_nodes(best->outcome))) {
      best = std::move(placement);
    }
  }
  if (!best) {
    return study.leave(
        fmt::format("tensor groups of {} cross nodes of {}, but no layout with them inside is possible or "
                    "sends less between nodes",
                    job.layout.tp, node));
  }
  best->change.id = "tensor_ranks_on_node";
  best->change.reason = fmt::format(
      "tensor groups of {} ranks cross nodes of {}: of all ranks together {} an iteration leave a node. As "
      "tp {} x pp {} "
      "x dp {} it is {}, and the busiest rank sends {} instead of {}.",
      job.layout.tp, node, to_text(study.cost().all_ranks.wire_inter_node), best->outcome.job.layout.tp,
      best->outcome.job.layout.pp, best->outcome.job.layout.dp, to_text(between_nodes(best->outcome)),
      to_text(best->outcome.cost().per_rank.wire), to_text(study.cost().per_rank.wire));
  study.recommend(std::move(best->change), best->outcome);
}

namespace {

/// Less filling and draining: more chunks per stage, or more micro-batches of fewer sequences.
std::vector<Placement> fuller_pipelines(const Study& study) {
  const Job& job = study.job();
  std::vector<Placement> found;
  const auto add = [&](Job changed, Change change) {
    std::optional<Outcome> outcome = study.outcome(std::move(changed));
    if (outcome && (!study.options().memory || study.fits(outcome->cost()))) {
      found.push_back({std::move(change), std::move(*outcome)});
    }
  };
  for (std::int64_t parts = 2; job.train.micro_batch % parts == 0; parts *= 2) {
    Job changed = job;
    changed.train.micro_batch /= parts;
    changed.train.micro_batches *= parts;
    add(changed, {.title = "Cut the batch into more micro-batches",
                  .flag = fmt::format("--micro-batch {} --micro-batches {}", changed.train.micro_batch,
                                      changed.train.micro_batches),
                  .setting = batch_text(changed)});
  }
  for (std::int64_t chunks = 2; job.layout.pp * chunks <= job.model.layers; ++chunks) {
    Job changed = job;
    changed.layout.virtual_stages = chunks;
    add(changed, {.title = "Interleave the stages",
                  .flag = fmt::format("--virtual-stages {}", chunks),
                  .setting = setting_text(changed, Setting::virtual_stages)});
  }
  return found;
}

}  // namespace

void advise_bubble(Study& study) {
  const Job& job = study.job();
  if (job.layout.pp == 1) {
    return;
  }
  std::optional<Placement> best;
  for (Placement& tried : fuller_pipelines(study)) {
    const double saved = study.cost().bubble - tried.outcome.cost().bubble;
    const bool is_enough = saved >= study.options().least_saving;
    // Of equal bubbles, the one with fewer wire bytes.
    const auto merit = [](const Outcome& outcome) {
      return std::pair(-outcome.cost().bubble, -outcome.cost().per_rank.wire.value);
    };
    if (is_enough && (!best || merit(tried.outcome) > merit(best->outcome))) {
      best = std::move(tried);
    }
  }
  const std::string now = fmt::format(
      "the pipeline's bubble is {} of a step: (p-1)/(v m + p-1) with p = {}, m = {}, v = {}",
      share_text(study.cost().bubble, 1), job.layout.pp, job.train.micro_batches, job.layout.virtual_stages);
  if (!best) {
    const bool has_schedules = !advised_changes(job, AdviceTopic::schedule).empty();
    return study.leave(now + (has_schedules ? "; no division of the same batch lowers it"
                                            : "; no division of the same batch, and no interleaving that the "
                                              "rules allow, lowers it"));
  }
  best->change.id = "pipeline_bubble";
  best->change.reason =
      fmt::format("{}. With this it is {}; a rank makes {} calls instead of {} and sends {} instead of {}.",
                  now, share_text(best->outcome.cost().bubble, 1),
                  with_commas(best->outcome.cost().per_rank.calls), with_commas(study.cost().per_rank.calls),
                  to_text(best->outcome.cost().per_rank.wire), to_text(study.cost().per_rank.wire));
  const std::optional<CallTimes>& times = study.times();
  const std::optional<std::chrono::nanoseconds> median = times ? times->step() : std::nullopt;
  if (!median) {
    return study.recommend(std::move(best->change), best->outcome);
  }
  const double shorter = 1 - (1 - study.cost().bubble) / (1 - best->outcome.cost().bubble);
  const auto step = static_cast<double>(median->count());
  study.recommend(
      std::move(best->change), best->outcome,
      std::chrono::nanoseconds(static_cast<std::int64_t>(step * shorter)),
      "the median step of the trace, as far as it is bubble by the formula; what more calls cost is not "
      "taken off");
}

}  // namespace commlens
