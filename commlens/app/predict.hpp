#pragma once
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/app/format.hpp"
#include "commlens/app/layout_options.hpp"
#include "commlens/app/prediction.hpp"
#include "commlens/app/sweep.hpp"
#include "commlens/base/result.hpp"
#include "commlens/formats/io/sink.hpp"
#include "commlens/plan/plan.hpp"

namespace commlens {

/// What to predict: a configuration, changes to it, and which iteration is shown how.
struct PredictRequest {
  std::vector<std::string> config;  // files that make one configuration, or the name of a model: "1.3B"
  std::string framework;  // the rules to use; empty: those named by the configuration, or its kind's default
  Overrides overrides;    // changes to the configuration
  PredictionView view;    // framework_choice is set by predict()
  Events events;
  std::string machine;  // of commlens machines, or a file: rows get the time of a call there; empty: none
  std::string library;  // "nccl:2.27.3"; empty: the machine's
};

/// The plan of the job: every call of every rank, of initialisation and of all iterations. Fails if the
/// configuration cannot be read or planned, or if the view's rank is not in the job.
Result<Plan> plan_of(const PredictRequest& request);

/// Counts the messages of one iteration. Fails as plan_of does, and unless the iteration is "init", "cold" or
/// "steady".
Result<Prediction> predict(const PredictRequest& request);
/// The same for an existing plan.
Result<Prediction> predict(const PredictRequest& request, const Plan& plan);

/// Initialisation and all iterations of the plan's job. Fails if their calls do not fit in memory.
Result<std::vector<Iteration>> planned_iterations(const Plan& plan);

/// Fails if the calls of all ranks of the plan's job, or of one, would take more than a file should hold, by
/// an estimate. `flag` is what asked for them.
Result<void> check_written_calls(const Plan& plan, std::optional<Rank> rank, std::string_view flag);
constexpr Bytes k_most_written{20'000'000'000};

/// Writes every call of a plan, of initialisation and of all iterations of its job, as JSON Lines; or of one
/// rank if given. Fails if the calls do not fit in memory.
Result<void> write_calls(const Plan& plan, std::optional<Rank> rank, const formats::TextSink& sink,
                         const Events& events);

/// A configuration under several frameworks and with several combinations of settings.
struct SweepRequest {
  std::vector<std::string> config;
  std::vector<std::string> frameworks;    // at least one; empty names: the configuration's own
  std::vector<Combination> combinations;  // at least one (app/layout_options.hpp)
  PredictionView view;
  Events events;
};

/// One row per combination of a framework and settings; a combination that cannot be planned has its reason.
/// Fails if none can be planned. Warns if the rows do different work.
Result<Sweep> sweep(const SweepRequest& request);

/// A table with its head and the paper's equations; JSON as schema commlens.predict/1; CSV with one line per
/// row.
std::string rendered(const Prediction& prediction, Format format, const TextStyle& style = {});
/// The same of a sweep: JSON as schema commlens.predict_sweep/2.
std::string rendered(const Sweep& sweep, Format format, const TextStyle& style = {});

}  // namespace commlens
