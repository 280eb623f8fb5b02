#pragma once
#include <functional>
#include <istream>
#include <string>
#include <utility>
#include <vector>

#include "commlens/base/rank.hpp"
#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::study {

/// A training of pipeline stages whose ranks are processes of an Open MPI job on this machine.
struct LaunchedTraining {
  std::string name;                  // "stages-tcp"
  std::string setting;               // "Open MPI, TCP"
  std::vector<std::string> options;  // of the launcher
};

/// Four stages over shared memory, and over TCP, where the first message of a pair makes their connection
/// unless a call of the job's start has made it.
std::vector<LaunchedTraining> launched_trainings();

/// Its words after "mpirun": the options, then the training's command line.
std::vector<std::string> words_of(const LaunchedTraining& training);
/// "mpirun -n 4 … commlens train 19M …".
std::string command_of(const LaunchedTraining& training);

/// Ordered pairs of ranks.
using RankPairs = std::vector<std::pair<Rank, Rank>>;

/// Pairs whose connection the first of them made while the ranks trained, by what Open MPI says of it
/// (--tag-output, btl_base_verbose 40): behind the line that `train` prints before its first iteration.
RankPairs connections_made(std::istream& output);

/// Messages between the stages of a training.
struct RecordedStages {
  std::string name;
  std::string setting;
  std::string command;  // that repeats it
  Trace trace;
  RankPairs connected = {};  // by their first message
};

/// Trains, in the directory `where`. Fails where the machine cannot: without Open MPI's launcher or our
/// module for it, inside another MPI job, where the job fails or takes longer than a minute, or was asked to
/// stop; `where` is then removed.
Result<RecordedStages> launched(const LaunchedTraining& training, const std::string& where,
                                const std::function<bool()>& stop_requested);

}  // namespace commlens::study
