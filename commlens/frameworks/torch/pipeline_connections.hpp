#pragma once
#include <cstdint>

#include "commlens/frameworks/torch/behaviour.hpp"
#include "commlens/frameworks/torch/groups.hpp"
#include "commlens/frameworks/torch/schedules.hpp"

namespace commlens::pytorch {

/// What a rank of a pipeline shares with the ranks that hold its neighbouring stages.
class PipelineConnections {
 public:
  /// `out` and `groups` outlive it.
  PipelineConnections(ProgramBuilder& out, const Groups& groups, const PipelineShape& shape,
                      std::int64_t rank);

  /// The pair of this rank with another one, as the sender or the receiver.
  GroupId pair(std::int64_t other, bool sends) const;
  /// The messages before the first step, which make the connections (Behaviour::FirstStep has the sources).
  void establish(Behaviour::FirstStep first_step);

 private:
  bool has(std::int64_t stage) const { return stage >= 0 && stage < shape_.stages(); }
  void small(std::int64_t stage, bool sends, DType dtype, const Rule& rule);
  void handshake(DType sent);
  void vote_along();
  void vote();
  void connect();

  ProgramBuilder& out_;
  const Groups& groups_;
  PipelineShape shape_;
  std::int64_t rank_;
};

}  // namespace commlens::pytorch
