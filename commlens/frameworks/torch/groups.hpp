#pragma once
#include "commlens/frameworks/torch/options.hpp"
#include "commlens/plan/program_builder.hpp"

namespace commlens::pytorch {

/// What shards of a group are divided over, and who holds the same ones.
struct ShardMesh {
  GroupId shard{};
  GroupId replicate{};
  std::int64_t shard_ranks = 1;
  std::int64_t replicate_ranks = 1;
};

/// The process groups of a job: ranks are numbered pipeline, data_replicate, data_shard, context, tensor, the
/// last the fastest.
class Groups {
 public:
  /// Groups go to the tables of `out`.
  Groups(ProgramBuilder& out, const Job& job);

  GroupId shard;      // data_shard x context: what fully_shard shards over
  GroupId replicate;  // data_replicate
  GroupId data;       // data_replicate x data_shard x context
  GroupId tensor;
  GroupId context;
  GroupId pipeline;
  std::int64_t shard_ranks = 1;
  std::int64_t replicate_ranks = 1;

  ShardMesh mesh() const { return {shard, replicate, shard_ranks, replicate_ranks}; }
  /// So many consecutive ranks of the shard group. Fails where they are no part of the mesh.
  Result<GroupId> part_of_shard(std::int64_t ranks) const;

 private:
  ProgramBuilder* out_;
};

}  // namespace commlens::pytorch
