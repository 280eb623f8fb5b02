#include <cmath>

#include <nlohmann/json.hpp>

#include "commlens/app/job_text.hpp"
#include "commlens/app/prediction.hpp"
#include "commlens/frameworks/memory.hpp"
#include "commlens/frameworks/paper/equations.hpp"
#include "commlens/report/breakdown_report.hpp"

namespace commlens {
namespace {

using Json = nlohmann::ordered_json;

/// Integers without a decimal point.
Json number(double value) {
  constexpr double integer_limit = 9.2e18;
  if (std::fabs(value) < integer_limit && value == std::floor(value)) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

Json memory_json(const MemoryEstimate& memory) {
  return {{"parameters", memory.parameters.value}, {"gradients", memory.gradients.value},
          {"optimizer", memory.optimizer.value},   {"activations", memory.activations.value},
          {"logits", memory.logits.value},         {"buffers", memory.buffers.value},
          {"working", memory.working.value},       {"total", memory.total().value}};
}

Json formulas_json(const Job& job) {
  Json formulas = Json::array();
  for (const EquationValue& equation : equations(job)) {
    formulas.push_back({{"equation", equation.equation},
                        {"text", equation.text},
                        {"value", number(equation.value)},
                        {"value_exact", number(equation.value_exact)},
                        {"unit", equation.unit},
                        {"scope", equation.scope},
                        {"note", equation.note}});
  }
  return formulas;
}

}  // namespace

Json prediction_json(const Prediction& prediction) {
  const Job& job = prediction.job;
  const bool logger = prediction.view.accounting == Accounting::comms_logger;
  const bool has_work = prediction.iteration != k_init_iteration;
  return {{"schema", "commlens.predict/1"},
          {"model", model_json(job.model)},
          {"layout", layout_json(job)},
          {"framework", job.framework},
          {"framework_version", framework_version(prediction)},
          {"framework_is_default", prediction.view.framework_choice == FrameworkChoice::fallback},
          {"verified", prediction.unverified.empty()},
          {"unverified", prediction.unverified},
          {"iteration", prediction.view.iteration},
          {"iteration_number", prediction.iteration},
          {"sequences_per_iteration", has_work ? Json(sequences_per_iteration(job)) : Json()},
          {"accounting", logger ? "deepspeed-logger" : "messages"},
          {"rows", breakdown_json(prediction.trace, prediction.rows, prediction.view.ranks_per_node > 0)},
          {"totals",
           {{"per_rank",
             {{"rank", prediction.view.rank.value_or(Rank{0}).value},
              {"calls", prediction.per_rank.calls},
              {"message_bytes", prediction.per_rank.message.value},
              {"wire_bytes", prediction.per_rank.wire.value}}},
            {"aggregate", {{"wire_bytes", prediction.aggregate_wire.value}}}}},
          {"formulas", formulas_json(job)},
          {"flops_per_rank", number(prediction.flops_per_rank.value)},
          {"memory_per_rank_bytes", memory_json(memory_per_rank(job))}};
}

}  // namespace commlens
