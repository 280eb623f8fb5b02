#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/base/rank.hpp"
#include "commlens/base/result.hpp"
#include "commlens/comm/axis.hpp"
#include "commlens/comm/event.hpp"
#include "commlens/frameworks/overrides.hpp"

namespace commlens {

/// Calls of a steady iteration that are equal in op, element type, sizes, axis, root and size of the group:
/// what rows of `bench --messages` and `tune --messages` are made of. Sizes as in comm/volume.hpp.
struct ModelMessage {
  CommKind kind = CommKind::barrier;  // never other
  DType dtype = DType::uint8;
  Elements input;
  Elements output;
  std::int64_t ranks = 2;  // of the group, at least 2; 2 for send and recv
  Axis axis;
  std::optional<GroupRank> root;
  bool varies = false;                 // sizes depend on data: these are the expected ones (Match::count)
  std::vector<double> calls_of_class;  // per iteration, of one rank of each of ModelMessages::classes
  /// The groups that make it, each with those of its ranks that do, with exactly these sizes; empty where
  /// they are not known, or were not asked for.
  std::map<std::vector<std::int64_t>, std::set<std::int64_t>> callers;
};

/// Calls per iteration summed over all ranks of the classes.
double job_calls(const ModelMessage& message, const std::vector<std::int64_t>& ranks_of_class);

/// The messages of a model's steady iteration, each once, with the number of its calls.
struct ModelMessages {
  std::string source;  // what was read, for people: "19M" or the trace's name
  std::string chosen;  // "the iteration that repeats", "iteration 4", "iterations 1-4", "all calls"
  std::int64_t job_ranks = 1;
  std::int64_t iterations = 1;               // of which the calls are the mean: 1 for a prediction
  std::vector<std::int64_t> ranks_of_class;  // ranks that make the same calls: how many are in each class
  std::vector<RankRange> classes;            // which ranks those are
  std::vector<ModelMessage> messages;        // in the order of their first call
  std::map<std::string, double> left_out;    // calls that are none of these, per iteration and job, by reason
};

/// Which iterations of a trace count, where none are given: all but the first, which is cold, or the last one
/// that is whole.
enum class MessageIterations : std::uint8_t { warm, last };

/// Where messages come from: a configuration with layout flags, which is predicted, or a trace.
struct MessagesRequest {
  std::vector<std::string> input;  // files that make one configuration, the name of a model, or one trace
  std::string framework;           // of a configuration; empty: its own
  Overrides overrides;             // of a configuration
  std::string iterations;          // of a trace, "FIRST-LAST"; empty: as `usual` says
  MessageIterations usual = MessageIterations::warm;
  bool with_callers = false;  // ModelMessage::callers
  Events events;
};

/// Fails as plan_of() and open_trace() do, if flags do not apply to the kind of input, and if no call of the
/// iteration moves anything between ranks.
Result<ModelMessages> model_messages(const MessagesRequest& request);

}  // namespace commlens
