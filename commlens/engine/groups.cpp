#include "commlens/engine/groups.hpp"

#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/result.hpp"

namespace commlens::engine {

Position position_of(Rank rank, const Mesh& mesh) {
  return {mesh.position(rank, Axis::pp), mesh.position(rank, Axis::dp), mesh.position(rank, Axis::tp)};
}

RankGroups make_groups(const Job& job, std::unique_ptr<Communicator> world, Recorder* recorder,
                       CommClock& clock) {
  const Mesh mesh = job.layout.mesh();
  if (mesh.ranks() != world->size()) {
    throw SystemError(
        fmt::format("the layout has {} ranks, the job was started with {}", mesh.ranks(), world->size()));
  }
  RankGroups groups;
  groups.where = position_of(Rank{world->rank().value}, mesh);
  const auto [stage, data, tensor] = groups.where;
  const std::int64_t data_ranks = mesh.size(Axis::dp);
  const std::int64_t tensor_ranks = mesh.size(Axis::tp);
  const std::int64_t block = job.train.hpz > 1 ? job.train.hpz : data_ranks;
  // Several groups of one axis may have the same ranks: `name` distinguishes them in the recording.
  const auto keep = [&](std::unique_ptr<Communicator> group, const Axis& axis, std::string_view name) {
    if (recorder == nullptr || !group) {
      return group;
    }
    const std::int64_t first = group->members().front().value;
    const CommunicatorId number = group->size() == 1
                                      ? k_no_communicator
                                      : communicator_named(fmt::format("{} of rank {}", name, first));
    return recorded(std::move(group), axis, *recorder, clock, number);
  };
  const std::int64_t column = data * tensor_ranks + tensor;  // same data and tensor position: one pipeline
  const std::int64_t row = stage * tensor_ranks + tensor;    // same stage and tensor position: one dp group
  groups.tp = keep(world->split(stage * data_ranks + data, tensor), Axis::tp, "tp");
  groups.dp = keep(world->split(row, data), Axis::dp, "dp");
  groups.forward = keep(world->split(column, stage), Axis::pp, "forward");
  groups.backward = keep(world->split(column, stage), Axis::pp, "backward");
  groups.model = keep(world->split(data, stage * tensor_ranks + tensor), Axis::model, "model");
  groups.block = keep(world->split(row * data_ranks + data / block, data), Axis::dp, "block");
  groups.stride = keep(world->split(row * data_ranks + data % block, data), Axis::dp, "stride");
  const bool is_end = stage == 0 || stage + 1 == mesh.size(Axis::pp);
  groups.ends = keep(world->split(is_end ? column : -1, stage), Axis::pp, "ends");
  groups.world = keep(std::move(world), Axis::world, "world");
  return groups;
}

}  // namespace commlens::engine
