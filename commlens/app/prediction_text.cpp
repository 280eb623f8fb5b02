#include <cmath>

#include <fmt/format.h>

#include "commlens/app/job_text.hpp"
#include "commlens/app/prediction.hpp"
#include "commlens/base/wrapped.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/memory.hpp"
#include "commlens/frameworks/paper/equations.hpp"
#include "commlens/model/parameters.hpp"
#include "commlens/report/breakdown_report.hpp"

namespace commlens {
namespace {

std::string tera_text(double flops) {
  constexpr double tera = 1e12;
  const double value = flops / tera;
  constexpr double least = 0.001;
  return value >= 1000   ? number_text(std::round(value))
         : value < least ? fmt::format("{:.6f}", value)
                         : fmt::format("{:.4g}", value);
}

std::string model_text(const ModelConfig& model) {
  const std::string paper = is_dense_gpt(model) ? fmt::format(" ({} by the paper's Eq. 1)",
                                                              with_commas(paper_parameter_count(model).value))
                                                : "";
  return fmt::format("{}{}, vocabulary {}\n", parameters_text(model), paper, with_commas(model.vocab));
}

std::string_view choice_text(FrameworkChoice choice, const Job& job) {
  const bool names_version = !job.framework_version.empty() || rules_of(job).versions.empty();
  return choice == FrameworkChoice::flag ? ""
         : choice == FrameworkChoice::case_file
             ? names_version ? " (as the case says)" : " (the case names no version)"
             : " (the default for this configuration; see --framework)";
}

std::string iteration_text(const Prediction& prediction) {
  if (prediction.view.iteration == "init") {
    return "initialisation, before the first iteration";
  }
  if (prediction.view.iteration == "cold") {
    return "cold (iteration 0)";
  }
  return fmt::format("steady (iteration {} and all after it{})", prediction.steady_iteration,
                     prediction.has_other_iterations ? " but those that log or save" : "");
}

/// The non-zero parts of the memory of the rank that needs most.
std::string memory_parts_text(const MemoryEstimate& memory) {
  const std::pair<const char*, Bytes> parts[] = {
      {"parameters", memory.parameters},   {"gradients", memory.gradients}, {"optimizer", memory.optimizer},
      {"activations", memory.activations}, {"logits", memory.logits},       {"buffers", memory.buffers},
      {"module at work", memory.working}};
  std::vector<std::string> texts;
  for (const auto& [name, bytes] : parts) {
    if (bytes.value > 0) {
      texts.push_back(fmt::format("{} {}", name, to_text(bytes)));
    }
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// " on a rank of stage 0, the fullest": where ranks of stages differ.
std::string fullest_text(const Job& job, Bytes most) {
  for (std::int64_t stage = 0; job.layout.pp > 1 && stage < job.layout.pp; ++stage) {
    if (memory_of_stage(job, stage).total() == most) {
      return fmt::format(" on a rank of stage {}, the fullest", stage);
    }
  }
  return "";
}

std::string head_text(const Prediction& prediction) {
  const Job& job = prediction.job;
  const MemoryEstimate memory = memory_per_rank(job);
  std::string text = model_text(job.model) + layout_text(job) + attention_text(job) + "\n";
  const std::vector<std::string>& unverified = prediction.unverified;
  text += fmt::format("rules: {}{}{}\n", framework_text(prediction),
                      choice_text(prediction.view.framework_choice, job),
                      unverified.empty() ? "" : fmt::format("; unverified: {}", fmt::join(unverified, "; ")));
  text += fmt::format("iteration: {}{}\n", iteration_text(prediction),
                      prediction.view.accounting == Accounting::comms_logger
                          ? "; as DeepSpeed's comms logger shows it (all_gather: input shard)"
                          : "");
  text += fmt::format("one rank: {} TFLOP per iteration; memory {}{} ({})\n",
                      tera_text(prediction.flops_per_rank.value), to_text(memory.total()),
                      fullest_text(job, memory.total()), memory_parts_text(memory));
  return text;
}

std::string equations_text(const Job& job, const TextStyle& style) {
  Table table({{.title = "Eq"},
               {.title = "the paper's formula", .least = 16},
               {.title = "as printed", .align = Column::Align::right},
               {.title = "exact", .align = Column::Align::right},
               {.title = "unit"},
               {.title = "scope", .least = 9}});
  std::string notes;
  for (const EquationValue& equation : equations(job)) {
    table.add({equation.equation, equation.text, number_text(equation.value),
               number_text(equation.value_exact), equation.unit, equation.scope});
    if (!equation.note.empty()) {
      notes += fmt::format("  ({}) {}\n", equation.equation, equation.note);
    }
  }
  return table.empty() ? "" : table.text(style) + wrapped(notes, style);
}

}  // namespace

std::string prediction_text(const Prediction& prediction, const TextStyle& style) {
  std::string text = wrapped(head_text(prediction), style) + "\n";
  text += prediction.rows.empty()
              ? "no messages\n"
              : breakdown_text(prediction.trace, prediction.rows, style, prediction.view.accounting);
  const std::int64_t ranks = prediction.job.layout.ranks;
  text += fmt::format("{}: {} wire bytes in this iteration\n\n",
                      ranks == 1 ? "the one rank" : fmt::format("all {} ranks together", with_commas(ranks)),
                      to_text(prediction.aggregate_wire));
  return text + equations_text(prediction.job, style);
}

}  // namespace commlens
