#pragma once
#include <cstdint>
#include <memory>

#include "commlens/model/job.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/transport/comm_recording.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens::engine {

/// The position of a rank on the mesh of its job.
struct Position {
  std::int64_t pipeline = 0;
  std::int64_t data = 0;
  std::int64_t tensor = 0;
};
Position position_of(Rank rank, const Mesh& mesh);

/// The groups this rank is a member of, each recorded under its axis. `forward` and `backward` both hold the
/// pipeline's stages: activations and gradients never wait for one another.
struct RankGroups {
  Position where;
  std::unique_ptr<Communicator> world;
  std::unique_ptr<Communicator> dp;
  std::unique_ptr<Communicator> tp;
  std::unique_ptr<Communicator> forward;
  std::unique_ptr<Communicator> backward;
  std::unique_ptr<Communicator> model;   // all stages and tensor positions of one replica
  std::unique_ptr<Communicator> block;   // hpz consecutive data ranks; all of dp without hpZ
  std::unique_ptr<Communicator> stride;  // the data ranks of the same position in their block
  std::unique_ptr<Communicator> ends;    // first and last stage; null on the stages between
};

/// Splits `world` by the job's layout. Without a recorder nothing is recorded and `clock` is unchanged.
RankGroups make_groups(const Job& job, std::unique_ptr<Communicator> world, Recorder* recorder,
                       CommClock& clock);

}  // namespace commlens::engine
