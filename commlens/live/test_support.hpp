#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/live/hang_verdict.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::test_support {

/// How a call is to differ from a blocking fp32 one of 8 elements that has finished.
struct CallForm {
  CallState state = CallState::finished;
  std::int64_t elements = 8;
  std::optional<GroupRank> root = {};
  DType dtype = DType::fp32;
  bool is_blocking = true;
  CommunicatorId communicator = CommunicatorId{1};
  std::string name = {};
  std::optional<std::int64_t> number = {};
  bool is_counted = true;
  bool is_on_device = false;
};

/// A job for tests, call by call.
class HangJob {
 public:
  explicit HangJob(std::int64_t ranks) : calls_(static_cast<std::size_t>(ranks)) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      states_.push_back({.rank = Rank{rank}, .process = {}, .boot = {}});
    }
  }

  using Form = CallForm;
  static Form open() { return {.state = CallState::under_way}; }

  void collective(std::int64_t rank, const std::vector<std::int64_t>& members, const Form& form = {},
                  CommKind kind = CommKind::all_reduce) {
    add(rank, kind, members, form);
  }
  void send(std::int64_t from, std::int64_t to, const Form& form = {}) {
    add(from, CommKind::send, {from, to}, form);
  }
  void receive(std::int64_t to, std::int64_t from, const Form& form = {}) {
    add(to, CommKind::recv, {from, to}, form);
  }
  void receive_any(std::int64_t to, const Form& form = open()) { add(to, CommKind::recv, {}, form); }

  RankState& state(std::int64_t rank) { return states_[static_cast<std::size_t>(rank)]; }
  void halt(std::int64_t rank) { halted_.push_back(rank); }

  JobProgress progress() const {
    ProgressBuilder builder;
    for (std::size_t row = 0; row < states_.size(); ++row) {
      builder.begin_rank(states_[row], tables_);
      for (const StatedCall& call : calls_[row]) {
        builder.add(call);
      }
      builder.end_rank();
    }
    JobProgress job = builder.finish();
    for (const std::int64_t rank : halted_) {
      job.ranks[static_cast<std::size_t>(rank)].is_halted = true;
    }
    return job;
  }

 private:
  void add(std::int64_t rank, CommKind kind, const std::vector<std::int64_t>& members, const Form& form) {
    std::vector<Rank> ranks;
    for (const std::int64_t member : members) {
      ranks.push_back(Rank{member});
    }
    StatedCall call;
    call.op = tables_.intern(CommOp{.kind = kind,
                                    .dtype = form.dtype,
                                    .blocking = form.is_blocking,
                                    .group = tables_.groups.intern(ranks, Axis::unknown, form.communicator),
                                    .input = Elements{form.elements},
                                    .output = Elements{form.elements},
                                    .root = form.root,
                                    .name = tables_.names.intern(form.name)});
    call.state = form.state;
    call.number = form.number;
    call.is_counted = form.is_counted;
    call.is_on_device = form.is_on_device;
    calls_[static_cast<std::size_t>(rank)].push_back(call);
  }

  Trace tables_;
  std::vector<RankState> states_;
  std::vector<std::vector<StatedCall>> calls_;
  std::vector<std::int64_t> halted_;
};

/// What is found of it, ranks by their numbers.
struct FoundHang {
  explicit FoundHang(const HangJob& made)
      : job(made.progress()), graph(wait_graph(job)), finding(find_hang(job, graph)) {}

  std::string verdict() const { return std::string(name_of(finding.verdict)); }
  std::vector<std::int64_t> culprits() const {
    std::vector<std::int64_t> ranks;
    for (const HangCulprit& culprit : finding.culprits) {
      ranks.push_back(job.ranks[culprit.rank].state.rank.value);
    }
    return ranks;
  }
  const WaitPoint& point() const { return graph.points[finding.point.value()]; }

  JobProgress job;
  WaitGraph graph;
  HangFinding finding;
};

}  // namespace commlens::test_support
