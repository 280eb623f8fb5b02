#include "tests/iterations/layouts.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace commlens::test_support {
namespace {

constexpr std::size_t k_least_layouts = 3;
constexpr double k_apart = 0.03;
constexpr std::string_view k_tiny = "tiny models";
constexpr std::string_view k_single_node = "A100 node";

/// Predicted and measured seconds of a layout.
using Times = std::pair<double, double>;

std::string layout_of(const TrainingRun& run) {
  const RunLayout& layout = run.layout;
  return fmt::format("t{} p{} v{} c{} e{}x{} b{} k{} g{} r{} f{}", layout.tensor, layout.pipeline,
                     layout.virtual_stages, layout.context, layout.expert, layout.expert_tensor,
                     layout.micro_batch, static_cast<int>(layout.data_kind), layout.shard_group,
                     static_cast<int>(run.behaviour.recompute), run.behaviour.has_fused_attention);
}

std::map<std::string, std::vector<TrainingRun>> groups_of(const std::vector<TrainingRun>& runs) {
  std::map<std::string, std::vector<TrainingRun>> groups;
  for (const TrainingRun& run : runs) {
    groups[fmt::format("{}, {} of {}, {} x {}, {}", run.model.name, run.layout.ranks, run.family,
                       run.layout.global_batch, run.model.sequence,
                       run.behaviour.precision == MatrixPrecision::bf16 ? "16 bit" : "fp8")]
        .push_back(run);
  }
  return groups;
}

/// One time of each layout: the prediction, and the median of what was measured.
std::vector<Times> layout_times(const std::vector<TrainingRun>& group, const RunTimes& predicted) {
  std::map<std::string, std::vector<double>> measured;
  std::map<std::string, double> times;
  for (const TrainingRun& run : group) {
    measured[layout_of(run)].push_back(*run.seconds);
    times[layout_of(run)] = predicted.at(run.id);
  }
  std::vector<Times> layouts;
  for (const auto& [layout, seconds] : measured) {
    layouts.emplace_back(times[layout], median_of(seconds));
  }
  return layouts;
}

std::size_t count_layouts(const std::vector<TrainingRun>& group) {
  std::map<std::string, int> layouts;
  for (const TrainingRun& run : group) {
    ++layouts[layout_of(run)];
  }
  return layouts.size();
}

LayoutGroup judged(const std::vector<Times>& layouts) {
  LayoutGroup group;
  group.layouts = layouts.size();
  int agree = 0;
  for (std::size_t one = 0; one < layouts.size(); ++one) {
    for (std::size_t other = 0; other < one; ++other) {
      const auto& [first, first_true] = layouts[one];
      const auto& [second, second_true] = layouts[other];
      if (std::abs(first_true / second_true - 1) > k_apart) {
        ++group.pairs;
        agree += (first - second) * (first_true - second_true) > 0 ? 1 : -1;
      }
    }
  }
  group.tau = group.pairs > 0 ? agree / static_cast<double>(group.pairs) : 1;
  const auto chosen = std::min_element(layouts.begin(), layouts.end());
  const auto best = std::min_element(layouts.begin(), layouts.end(),
                                     [](const Times& a, const Times& b) { return a.second < b.second; });
  group.regret = 100 * (chosen->second / best->second - 1);
  return group;
}

/// Groups of `runs`, each predicted by the others.
void add_groups(std::vector<LayoutGroup>& result, std::string_view suite,
                const std::vector<TrainingRun>& runs) {
  for (const auto& [name, members] : groups_of(runs)) {
    if (count_layouts(members) < k_least_layouts) {
      continue;
    }
    std::map<std::string, bool> is_member;
    for (const TrainingRun& run : members) {
      is_member[run.id] = true;
    }
    const RunSplit split =
        split_runs(runs, [&](const TrainingRun& run) { return !is_member.contains(run.id); });
    LayoutGroup group = judged(layout_times(members, model_times(split)));
    group.suite = suite;
    group.name = name;
    result.push_back(group);
  }
}

void add_single_node(std::vector<LayoutGroup>& result) {
  const std::vector<TrainingRun> runs = single_node_runs();
  RunTimes times;
  for (const std::int64_t hidden : {1024, 2048}) {
    times.merge(
        model_times(split_runs(runs, [=](const TrainingRun& run) { return run.model.hidden != hidden; })));
  }
  for (const auto& [name, members] : groups_of(runs)) {
    if (count_layouts(members) >= k_least_layouts) {
      result.push_back(judged(layout_times(members, times)));
      result.back().suite = k_single_node;
      result.back().name = name;
    }
  }
}

std::vector<LayoutGroup> make_groups() {
  std::vector<LayoutGroup> result;
  for (const std::string suite : {"A2", "A3", "A4", "A7", "A8", "A9", "A10", "A14"}) {
    add_groups(result, suite, suite_runs(suite));
  }
  std::vector<TrainingRun> tiny = measured_runs().strict;
  std::erase_if(tiny, [](const TrainingRun& run) { return run.source != "megatron-lm-golden"; });
  add_groups(result, k_tiny, tiny);
  add_single_node(result);
  return result;
}

std::string line_of_many(std::string_view suite) {
  std::vector<double> taus;
  std::vector<double> regrets;
  std::size_t layouts = 0;
  std::size_t pairs = 0;
  for (const LayoutGroup& group : layout_groups()) {
    if (group.suite == suite) {
      taus.push_back(group.tau);
      regrets.push_back(group.regret);
      layouts += group.layouts;
      pairs += group.pairs;
    }
  }
  if (taus.empty()) {
    return "";
  }
  std::sort(regrets.begin(), regrets.end());
  return fmt::format(
      "| {} | {} groups, median (regret: 90th percentile {:.1f}) | {} | {} | {:.2f} | {:.1f} |\n", suite,
      taus.size(), regrets[static_cast<std::size_t>(0.9 * static_cast<double>(regrets.size() - 1))], layouts,
      pairs, median_of(taus), median_of(regrets));
}

}  // namespace

const std::vector<LayoutGroup>& layout_groups() {
  static const std::vector<LayoutGroup> groups = make_groups();
  return groups;
}

std::string layout_table() {
  std::string text = "| suite | group | layouts | pairs | tau | regret, % |\n|---|---|--:|--:|--:|--:|\n";
  for (const LayoutGroup& group : layout_groups()) {
    if (group.suite != k_tiny && group.suite != k_single_node) {
      text += fmt::format("| {} | {} | {} | {} | {:.2f} | {:.1f} |\n", group.suite, group.name, group.layouts,
                          group.pairs, group.tau, group.regret);
    }
  }
  return text + line_of_many(k_tiny) + line_of_many(k_single_node);
}

}  // namespace commlens::test_support
