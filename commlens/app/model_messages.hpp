#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/base/rank.hpp"
#include "commlens/base/result.hpp"
#include "commlens/comm/event.hpp"
#include "commlens/frameworks/overrides.hpp"

namespace commlens {

/// Calls of a steady iteration that are equal in op, element type, sizes and size of the group: a row of
/// `bench --messages` and `tune --messages`. Sizes as in comm/volume.hpp.
struct ModelMessage {
  CommKind kind = CommKind::barrier;  // never other
  DType dtype = DType::uint8;
  Elements input;
  Elements output;
  std::int64_t ranks = 2;              // of the group, at least 2; 2 for send and recv
  bool varies = false;                 // sizes depend on data: these are the expected ones (Match::count)
  std::vector<double> calls_of_class;  // per iteration, of one rank of each of ModelMessages::classes
};

/// Calls per iteration summed over all ranks of the classes.
double job_calls(const ModelMessage& message, const std::vector<std::int64_t>& ranks_of_class);

/// The messages of a model's steady iteration, each once, with the number of its calls.
struct ModelMessages {
  std::string source;  // what was read, for people: "19M" or the trace's name
  std::int64_t job_ranks = 1;
  std::int64_t iterations = 1;               // of which the calls are the mean: 1 for a prediction
  std::vector<std::int64_t> ranks_of_class;  // ranks that make the same calls: how many are in each class
  std::vector<RankRange> classes;            // which ranks those are
  std::vector<ModelMessage> messages;        // in the order of their first call
  std::map<std::string, double> left_out;    // calls that are none of these, per iteration and job, by reason
};

/// Where messages come from: a configuration with layout flags, which is predicted, or a trace.
struct MessagesRequest {
  std::vector<std::string> input;  // files that make one configuration, the name of a model, or one trace
  std::string framework;           // of a configuration; empty: its own
  Overrides overrides;             // of a configuration
  std::string iterations;          // of a trace, "FIRST-LAST"; empty: all but the first, which is cold
  Events events;
};

/// Fails as plan_of() and open_trace() do, if flags do not apply to the kind of input, and if no call of the
/// iteration moves anything between ranks.
Result<ModelMessages> model_messages(const MessagesRequest& request);

}  // namespace commlens
