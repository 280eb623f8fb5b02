#include "tests/iterations/ablation.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "commlens/simulate/iteration_time.hpp"
#include "commlens/simulate/run_fit.hpp"
#include "tests/iterations/runs.hpp"

namespace commlens::test_support {
namespace {

constexpr double k_endless = 1e18;  // bytes/s
constexpr std::size_t k_of_single_node = 10;

/// What the model is without a term: values that are not fitted, runs that do not have it, or another sum.
struct Ablation {
  std::string term;
  CoefficientValues fixed;
  std::function<void(TrainingRun&)> change;
  RunSeconds seconds = closed_form_seconds;
};

void make_links_endless(TrainingRun& run) {
  run.hardware.link = k_endless;
  run.hardware.pair_link = 0;
}

double with_one_efficiency(const TrainingRun& run, const Coefficients& with) {
  Coefficients same = with;
  same[Coefficient::attention_efficiency] = with[Coefficient::gemm_efficiency];
  return closed_form_seconds(run, same);
}

double without_bubble(const TrainingRun& run, const Coefficients& with) {
  const IterationTime time = iteration_time(run, with);
  return time.total() - time.bubble;
}

double without_stages(const TrainingRun& run, const Coefficients& with) {
  const IterationTime time = iteration_time(run, with);
  return time.total() - time.stages;
}

double without_data(const TrainingRun& run, const Coefficients& with) {
  const IterationTime time = iteration_time(run, with);
  return time.total() - time.data;
}

std::vector<Ablation> kernel_ablations() {
  using enum Coefficient;
  return {
      {"nothing", {}, {}},
      {"memory-bound work", {{memory_factor, 0}}, {}},
      {"launches", {{layer_launch, 0}, {launch_floor, 0}}, {}},
      {"attention's own efficiency", {{attention_efficiency, 1}}, {}, with_one_efficiency},
      {"half_inner", {{half_inner, 0}}, {}},
      {"waves of tiles", {}, [](TrainingRun& run) { run.hardware.processors = 1; }},
      {"divided products", {}, [](TrainingRun& run) { run.hardware.divides_products = false; }},
      {"logits", {{logits, 0}}, {}},
      {"early end of recomputation",
       {},
       [](TrainingRun& run) { run.behaviour.stops_repeating_early = false; }},
      {"adding up gradients", {}, [](TrainingRun& run) { run.behaviour.accumulation_bytes = 0; }},
      {"optimizer", {{optimizer_bytes, 0}, {host_bytes, 0}}, {}},
      {"time of an iteration", {{step, 0}}, {}},
      {"time of a micro-batch", {{micro_batch, 0}}, {}},
  };
}

std::vector<Ablation> message_ablations() {
  using enum Coefficient;
  return {
      {"bandwidth inside nodes", {}, make_links_endless},
      {"bandwidth between nodes", {}, [](TrainingRun& run) { run.hardware.network = k_endless; }},
      {"latency between nodes", {{hop, 0}}, {}},
      {"all data-parallel messages", {}, {}, without_data},
      {"overlap",
       {{overlap, 0}, {tensor_hidden, 0}},
       [](TrainingRun& run) { run.behaviour.overlaps_point_to_point = false; }},
      {"what overlap costs", {{contention, 0}}, {}},
      {"broadcasts of owners", {{owner, 0}}, {}},
      {"exchange of experts", {{exchange, 0}}, {}},
      {"waiting of pipelines", {}, {}, without_bubble},
      {"messages between stages", {}, {}, without_stages},
      {"tied embeddings", {}, [](TrainingRun& run) { run.model.has_tied_embeddings = false; }},
      {"neighbours that wait", {}, [](TrainingRun& run) { run.hardware.busy_share = 1; }},
      {"stragglers", {}, [](TrainingRun& run) { run.hardware.node = run.layout.ranks; }},
  };
}

/// Mean error of a family's runs, fitted to themselves, times their number, %.
double sum_of_errors(const Ablation& ablation, std::vector<TrainingRun> runs) {
  std::vector<const TrainingRun*> members;
  for (TrainingRun& run : runs) {
    if (ablation.change) {
      ablation.change(run);
    }
    members.push_back(&run);
  }
  Coefficients start = start_of(runs.front());
  start.set(ablation.fixed);
  std::vector<Coefficient> fitted = coefficients_of(members);
  std::erase_if(fitted, [&](Coefficient coefficient) {
    return std::any_of(ablation.fixed.begin(), ablation.fixed.end(),
                       [&](const auto& fixed) { return fixed.first == coefficient; });
  });
  const RunFit fit = fit_runs(members, start, fitted, ablation.seconds);
  double sum = 0;
  for (const TrainingRun& run : runs) {
    sum += 100 * std::abs(ablation.seconds(run, fit.coefficients) / *run.seconds - 1);
  }
  return sum;
}

double error_without(const Ablation& ablation, const std::vector<TrainingRun>& runs) {
  std::map<std::string, std::vector<TrainingRun>> families;
  for (const TrainingRun& run : runs) {
    families[run.family].push_back(run);
  }
  double sum = 0;
  for (const auto& [name, members] : families) {
    sum += sum_of_errors(ablation, members);
  }
  return sum / static_cast<double>(runs.size());
}

/// Every tenth run of the single node: enough to tell, and ten times as fast.
std::vector<TrainingRun> some_single_node_runs() {
  std::vector<TrainingRun> some;
  const std::vector<TrainingRun> all = single_node_runs();
  for (std::size_t index = 0; index < all.size(); index += k_of_single_node) {
    some.push_back(all[index]);
  }
  return some;
}

std::vector<TrainingRun> runs_with_experts() {
  std::vector<TrainingRun> runs = measured_runs().strict;
  std::erase_if(runs, [](const TrainingRun& run) {
    return run.source != "dgxc-benchmarking" || run.model.experts <= 1;
  });
  return runs;
}

}  // namespace

std::string ablation_table() {
  std::vector<std::vector<TrainingRun>> suites;
  std::string head = "| without |";
  std::string rule = "\n|---|";
  for (const std::string suite : {"A2", "A3", "A4", "A7", "A8", "A9", "A10"}) {
    suites.push_back(suite_runs(suite));
    head += " " + suite + " |";
    rule += "--:|";
  }
  suites.push_back(runs_with_experts());
  suites.push_back(some_single_node_runs());
  std::string text = head + " experts | A100 node |" + rule + "--:|--:|\n";
  std::vector<Ablation> ablations = kernel_ablations();
  const std::vector<Ablation> more = message_ablations();
  ablations.insert(ablations.end(), more.begin(), more.end());
  for (const Ablation& ablation : ablations) {
    text += "| " + ablation.term + " |";
    for (const std::vector<TrainingRun>& runs : suites) {
      text += fmt::format(" {:.2f} |", error_without(ablation, runs));
    }
    text += "\n";
  }
  return text;
}

}  // namespace commlens::test_support
