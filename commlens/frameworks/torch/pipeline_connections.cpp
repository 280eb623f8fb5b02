#include "commlens/frameworks/torch/pipeline_connections.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "commlens/frameworks/torch/rule_names.hpp"

namespace commlens::pytorch {
namespace {

using Pair = std::pair<std::int64_t, std::int64_t>;

/// Pairs of ranks that hold neighbouring stages, the lower one first, in rounds of pairs that share no rank:
/// in ascending order, each in the first round that has room. Source: pipelining/_p2p.py:66.
std::vector<std::vector<Pair>> connection_rounds(const PipelineShape& shape) {
  std::set<Pair> pairs;
  for (std::int64_t stage = 0; stage + 1 < shape.stages(); ++stage) {
    const auto [low, high] = std::minmax({shape.rank_of(stage), shape.rank_of(stage + 1)});
    if (low != high) {
      pairs.insert({low, high});
    }
  }
  std::vector<std::vector<Pair>> rounds;
  while (!pairs.empty()) {
    std::vector<Pair>& round = rounds.emplace_back();
    std::set<std::int64_t> taken;
    for (auto pair = pairs.begin(); pair != pairs.end();) {
      if (taken.contains(pair->first) || taken.contains(pair->second)) {
        ++pair;
        continue;
      }
      taken.insert({pair->first, pair->second});
      round.push_back(*pair);
      pair = pairs.erase(pair);
    }
  }
  return rounds;
}

}  // namespace

PipelineConnections::PipelineConnections(ProgramBuilder& out, const Groups& groups,
                                         const PipelineShape& shape, std::int64_t rank)
    : out_(out), groups_(groups), shape_(shape), rank_(rank) {}

GroupId PipelineConnections::pair(std::int64_t other, bool sends) const {
  using Shape = GroupPattern::Shape;
  if (other == rank_) {  // with itself: an axis that has one rank here
    return out_.groups.pair(Axis::ep, sends ? Shape::to_next : Shape::from_next);
  }
  const bool is_next = other == (rank_ + 1) % shape_.ranks;
  return out_.groups.pair(Axis::pp, is_next ? (sends ? Shape::to_next : Shape::from_next)
                                            : (sends ? Shape::to_previous : Shape::from_previous));
}

void PipelineConnections::establish(Behaviour::FirstStep first_step) {
  using Step = Behaviour::FirstStep;
  out_.set_phase(Phase::other);
  switch (first_step) {
    case Step::nothing:
      return;
    case Step::uneven_handshake:
      handshake(DType::int64);
      return;
    case Step::handshake:
      handshake(DType::fp32);
      return;
    case Step::vote_chain:
      vote_along();
      return;
    case Step::vote:
      vote();
      connect();
      return;
  }
}

void PipelineConnections::small(std::int64_t stage, bool sends, DType dtype, const Rule& rule) {
  const GroupId group = pair(shape_.rank_of(stage), sends);
  sends ? out_.send(group, {1}, dtype, rule, "connection") : out_.recv(group, {1}, dtype, rule, "connection");
}

void PipelineConnections::handshake(DType sent) {
  out_.set_waiting(Waiting::batched);
  for (const std::int64_t own : shape_.stages_of(rank_)) {
    const auto message_with = [&](std::int64_t stage, bool sends) {
      if (has(stage)) {
        small(stage, sends, sends ? sent : DType::fp32, k_pipeline_connect);
      }
    };
    message_with(own - 1, false);
    message_with(own + 1, true);
    message_with(own - 1, true);
    message_with(own + 1, false);
  }
  out_.set_waiting(Waiting::at_once);
}

void PipelineConnections::vote_along() {
  const auto with = [&](std::int64_t stage, bool sends) {
    if (has(stage) && shape_.rank_of(stage) != rank_) {
      small(stage, sends, DType::int32, k_pipeline_vote);
    }
  };
  for (const std::int64_t own : shape_.stages_of(rank_)) {
    with(own - 1, false);
    with(own + 1, true);
  }
  const std::vector<std::int64_t> stages = shape_.stages_of(rank_);
  for (auto own = stages.rbegin(); own != stages.rend(); ++own) {
    with(*own + 1, false);
    with(*own - 1, true);
  }
}

void PipelineConnections::vote() {
  out_.set_reduction(Reduction::min);
  out_.all_reduce(groups_.pipeline, {1}, DType::int32, k_pipeline_vote, "is initialised");
}

void PipelineConnections::connect() {
  for (const std::vector<Pair>& round : connection_rounds(shape_)) {
    for (const auto& [low, high] : round) {
      if (rank_ == low) {
        out_.send(pair(high, true), {1}, DType::int32, k_pipeline_connect, "connection");
      } else if (rank_ == high) {
        out_.recv(pair(low, false), {1}, DType::int32, k_pipeline_connect, "connection");
      }
    }
    out_.set_reduction(Reduction::sum);
    out_.all_reduce(groups_.pipeline, {1}, DType::int32, k_pipeline_connect, "connection");
  }
}

}  // namespace commlens::pytorch
