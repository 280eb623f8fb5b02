#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/live/node_state.hpp"
#include "commlens/live/nodes_follower.hpp"

namespace commlens::test_support {

/// States that a test hands over.
class PlantedSource final : public NodeSource {
 public:
  using News = std::vector<std::pair<std::string, Result<NodeState>>>;
  explicit PlantedSource(std::shared_ptr<News> news) : news_(std::move(news)) {}
  void look(const Sink& sink) override {
    for (auto& [place, state] : *news_) {
      sink(place, std::move(state));
    }
    news_->clear();
  }

 private:
  std::shared_ptr<News> news_;
};

/// What the nodes of a job of any size say while it runs and when a rank stays away, without its recordings:
/// each step all ranks reduce in their node, along the same place of all nodes, and in the world.
class PlannedCluster {
 public:
  static constexpr std::int64_t k_ranks = 8;  // of a node

  explicit PlannedCluster(std::int64_t nodes) : nodes_(nodes) {}
  std::int64_t ranks() const { return nodes_ * k_ranks; }

  /// This rank makes no more calls, so that all others stay inside of the next ones that need it.
  void stop(Rank rank) { stopped_ = rank; }
  /// This rank works twice as long between calls as the others.
  void slow_down(Rank rank) { slow_ = rank; }
  /// Time passes; ranks that can go on have made more steps.
  void pass(std::chrono::nanoseconds time) {
    now_ += time;
    steps_ += stopped_.value < 0 ? 50 : 0;
    since_ = stopped_.value < 0 ? now_ : since_;
  }

  NodeState state(std::int64_t node, std::int64_t number) const {
    NodeState state{.node = fmt::format("n{}", node), .number = number, .interval = std::chrono::seconds(5)};
    JobView& view = state.view;
    view.name = "planned";
    view.state = LiveState::running;
    view.generation = 1;
    view.window = std::chrono::seconds(10);
    for (std::int64_t place = 0; place < k_ranks; ++place) {
      add_rank(state, Rank{node * k_ranks + place});
    }
    LiveOp op{.kind = CommKind::all_reduce, .axis = Axis::unknown, .group_size = ranks()};
    op.sums = {.calls = steps_ * k_ranks, .message = Bytes{steps_ * k_ranks * 32}};
    for (std::int64_t which = 100; which < 140; ++which) {
      op.durations.add_counted(static_cast<std::size_t>(which), static_cast<std::uint64_t>(steps_));
    }
    view.ops.push_back(op);
    return state;
  }

 private:
  std::vector<Rank> members(std::int64_t first, std::int64_t step, std::int64_t count) const {
    std::vector<Rank> ranks;
    for (std::int64_t at = 0; at < count; ++at) {
      ranks.push_back(Rank{first + at * step});
    }
    return ranks;
  }
  static SeenCall call(std::size_t channel, std::int64_t number) {
    SeenCall call{.part = CallPart::collective, .channel = channel, .number = number};
    call.op.kind = CommKind::all_reduce;
    call.op.dtype = DType::fp32;
    call.op.input = call.op.output = Elements{8};
    call.op.blocking = true;
    call.name = "MPI_Allreduce";
    return call;
  }

  // The order of a step: in the node, along the nodes, in the world. The rank that stopped did so before a
  // step: its own node's ranks wait in the first, those of its place on other nodes in the second, all others
  // in the third.
  void add_rank(NodeState& state, Rank rank) const {
    JobProgress& job = state.view.hang.job;
    if (job.channels.empty()) {
      const std::int64_t node = rank.value / k_ranks;
      job.channels.push_back(
          {.members = members(node * k_ranks, 1, k_ranks), .communicator = CommunicatorId{1}});
      job.channels.push_back({.members = members(0, 1, ranks()), .communicator = CommunicatorId{2}});
      for (std::int64_t place = 0; place < k_ranks; ++place) {
        job.channels.push_back(
            {.members = members(place, k_ranks, nodes_), .communicator = CommunicatorId{3}});
      }
    }
    const auto along = static_cast<std::size_t>(2 + rank.value % k_ranks);
    RankProgress progress{.state = {.rank = rank, .process = {}, .boot = {}}, .calls = 3 * steps_};
    progress.entered = {{0, steps_}, {along, steps_}, {1, steps_}};
    progress.last = call(1, steps_);
    if (stopped_.value >= 0 && rank != stopped_) {
      const bool is_of_node = rank.value / k_ranks == stopped_.value / k_ranks;
      const bool is_of_place = rank.value % k_ranks == stopped_.value % k_ranks;
      const std::size_t channel = is_of_node ? 0 : is_of_place ? along : 1;
      progress.entered[0] = steps_ + 1;
      progress.entered[along] += is_of_node ? 0 : 1;
      progress.entered[1] += channel == 1 ? 1 : 0;
      progress.open.push_back(call(channel, steps_ + 1));
    }
    LiveRank live{.rank = rank, .process = RankProcess{.host = state.node, .pid = 1000 + rank.value}};
    live.process_state = ProcessState::sleeping;
    live.sums = {.calls = 3 * steps_, .message = Bytes{96 * steps_}};
    live.entered = progress.calls;
    live.still_for = now_ - since_;
    live.open_calls = static_cast<std::int64_t>(progress.open.size());
    if (!progress.open.empty()) {
      live.call = LiveCall{};
      live.call->open_for = live.still_for;
    }
    state.view.ranks.push_back(std::move(live));
    state.view.hang.processes.push_back(ProcessState::sleeping);
    job.ranks.push_back(std::move(progress));
    add_blocks(state, rank, along);
  }

  // Steps of 100 ms, of which a rank works 30 ms.
  void add_blocks(NodeState& state, Rank rank, std::size_t along) const {
    constexpr std::int64_t k_steps = 64;  // of a block
    const std::int64_t last = steps_ / k_steps;
    const std::int64_t first =
        std::max<std::int64_t>(0, last - static_cast<std::int64_t>(LatestBlocks::k_told));
    for (const std::size_t channel : {std::size_t{1}, along}) {
      SpanningWork work{
          .rank = rank, .channel = channel, .is_marked = true, .begin = first * k_steps, .blocks = {}};
      for (std::int64_t block = first; block < last; ++block) {
        const std::int64_t step_ns =
            (rank == slow_ ? 60'000'000 : 30'000'000) + (rank.value + block) % 97 * 1000;
        work.blocks.push_back({.end = (block + 1) * k_steps,
                               .work = {.calls = k_steps,
                                        .signature = 12'345,
                                        .between_ns = k_steps * step_ns,
                                        .in_calls_ns = k_steps * (100'000'000 - step_ns)}});
      }
      state.view.spanning.push_back(std::move(work));
    }
  }

  std::int64_t nodes_;
  std::int64_t steps_ = 1000;
  Rank stopped_{-1};
  Rank slow_{-1};
  std::chrono::nanoseconds now_{};
  std::chrono::nanoseconds since_{};
};

}  // namespace commlens::test_support
