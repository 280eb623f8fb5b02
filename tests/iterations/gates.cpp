#include "tests/iterations/gates.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace commlens::test_support {
namespace {

using IsFitted = std::function<bool(const TrainingRun&)>;

std::function<Comparison()> by(const std::string& suite, IsFitted is_fitted) {
  return [=] { return compared({split_runs(suite_runs(suite), is_fitted)}); };
}

std::function<Comparison()> by_model(const std::string& suite) {
  return [=] { return compared(leave_one_model_out(suite_runs(suite))); };
}

std::function<Comparison()> drawn(const std::string& suite, std::size_t count, IsFitted is_kept = {}) {
  return [=] {
    std::vector<TrainingRun> runs = suite_runs(suite);
    if (is_kept) {
      std::erase_if(runs, [&](const TrainingRun& run) { return !is_kept(run); });
    }
    return compared_drawings(runs, count);
  };
}

/// One suite predicted from another.
std::function<Comparison()> from(const std::string& fitted, const std::string& held) {
  return [=] { return compared({{suite_runs(fitted), suite_runs(held)}}); };
}

std::function<Comparison()> single_node(IsFitted is_fitted) {
  return [=] { return compared({split_runs(single_node_runs(), is_fitted)}); };
}

std::vector<TrainingRun> of_gpu(const std::string& suite, const std::string& gpu) {
  std::vector<TrainingRun> runs = suite_runs(suite);
  std::erase_if(runs, [&](const TrainingRun& run) { return run.hardware.gpu != gpu; });
  return runs;
}

IsFitted up_to(std::int64_t ranks) {
  return [=](const TrainingRun& run) { return run.layout.ranks <= ranks; };
}
bool is_pipeline(const TrainingRun& run) { return !is_sharded(run.layout.data_kind); }
bool is_dense(const TrainingRun& run) { return run.model.experts <= 1; }
bool is_small_model(const TrainingRun& run) {
  return 12.0 * static_cast<double>(run.model.layers * run.model.hidden * run.model.hidden) < 4e9;
}

/// 3,584 devices and more, from up to 1,536.
Comparison far_larger_jobs() {
  const std::vector<TrainingRun> runs = suite_runs("A7");
  RunSplit split = split_runs(runs, up_to(1536));
  std::erase_if(split.held, [](const TrainingRun& run) { return run.layout.ranks < 3584; });
  return compared({split});
}

std::vector<Gate> make_gates() {
  return {
      {"A100 node", "20 random rows", 8.5, 0, true, [] { return compared_drawings(single_node_runs(), 20); }},
      {"A100 node", "hidden 1,024 to 2,048", 17, 0, true,
       single_node([](const TrainingRun& run) { return run.model.hidden == 1024; })},
      {"A100 node", "tensor 1, 2 to 4, 8", 14, 0, true,
       single_node([](const TrainingRun& run) { return run.layout.tensor <= 2; })},
      {"A100 node", "up to 4 to 8 GPUs", 9, 0, true, single_node(up_to(4))},
      {"A2", "3 random rows", 4.5, 0, true, drawn("A2", 3)},
      {"A2", "up to 256 to 512 and 1,024 GPUs", 3, 0, true, by("A2", up_to(256))},
      {"A3", "all of A2", 4, 0, true, from("A2", "A3")},
      {"A4", "leave one model out", 4.5, 8, true, by_model("A4")},
      {"A4", "up to 256 GPUs to more", 3.2, 0, true, by("A4", up_to(256))},
      {"A7", "all of A4", 3.2, 0, true, [] { return compared({{suite_runs("A4"), of_gpu("A7", "H100")}}); }},
      {"A7", "up to 1,536 to 3,584 GPUs and more", 4, 0, true, far_larger_jobs},
      {"A8", "pipelines, 1 random row", 3.5, 0, true, drawn("A8", 1, is_pipeline)},
      {"A8", "ZeRO-3, 2 random rows", 5.5, 0, true,
       drawn("A8", 2, [](const TrainingRun& run) { return !is_pipeline(run); })},
      {"A9", "21 random rows", 4.5, 0, true, drawn("A9", 21)},
      {"A9", "leave one model out", 3.8, 0, true, by_model("A9")},
      {"A9", "up to 3B to 7B-70B", 7, 0, true, by("A9", is_small_model)},
      {"A10", "4 random rows", 5.5, 0, true, drawn("A10", 4)},
      {"A10", "leave one model out", 4.7, 0, true, by_model("A10")},
      {"A10", "dense to mixtures of experts", 8, 0, true, by("A10", is_dense)},
      {"PyTorch H200", "4 random rows", 12, 0, true,
       [] { return compared_drawings(pytorch_runs("H200"), 4); }},
      {"PyTorch H200", "leave one model out", 12, 0, true,
       [] { return compared(leave_one_model_out(pytorch_runs("H200"))); }},
      {"PyTorch H100", "all of H200", 12, 0, true,
       [] { return compared({{pytorch_runs("H200"), pytorch_runs("H100")}}); }},
  };
}

double median_of_sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

}  // namespace

const std::vector<Gate>& iteration_gates() {
  static const std::vector<Gate> gates = make_gates();
  return gates;
}

std::string other_drawings() {
  const auto pipelines = [](const TrainingRun& run) { return is_pipeline(run); };
  const auto zero3 = [](const TrainingRun& run) { return !is_pipeline(run); };
  struct Drawn {
    std::string name;
    std::vector<TrainingRun> runs;
    std::size_t count = 0;
  };
  const std::vector<Drawn> all = {{"A2, 3 rows", suite_runs("A2"), 3},
                                  {"A8 pipelines, 1 row", split_runs(suite_runs("A8"), pipelines).fitted, 1},
                                  {"A8 ZeRO-3, 2 rows", split_runs(suite_runs("A8"), zero3).fitted, 2},
                                  {"A9, 21 rows", suite_runs("A9"), 21},
                                  {"A10, 4 rows", suite_runs("A10"), 4}};
  std::string text = "| rows | seeds 1-10 | 11-20 | 21-30 | 31-40 |\n|---|--:|--:|--:|--:|\n";
  for (const Drawn& drawn : all) {
    text += "| " + drawn.name + " |";
    for (const std::uint32_t first : {1U, 11U, 21U, 31U}) {
      text += fmt::format(" {:.1f} |", compared_drawings(drawn.runs, drawn.count, first).model.mean);
    }
    text += "\n";
  }
  return text;
}

double owner_group_error() {
  const std::vector<TrainingRun> runs = suite_runs("A2");
  const RunTimes times = model_times({split_runs(runs, up_to(256)).fitted, runs});
  const auto of = [&](std::int64_t group) {
    return std::find_if(runs.begin(), runs.end(), [&](const TrainingRun& run) {
      return run.layout.ranks == 1024 && run.layout.tensor == 1 && run.layout.shard_group == group;
    });
  };
  const auto wide = of(1024);
  const auto narrow = of(8);
  const double predicted = times.at(wide->id) / times.at(narrow->id);
  return 100 * (predicted / (*wide->seconds / *narrow->seconds) - 1);
}

double weak_scaling_error() {
  std::vector<double> errors;
  for (const RunSplit& split : leave_one_model_out(suite_runs("A4"))) {
    const RunTimes times = model_times(split);
    const auto fewest = std::min_element(
        split.held.begin(), split.held.end(),
        [](const TrainingRun& a, const TrainingRun& b) { return a.layout.ranks < b.layout.ranks; });
    const auto most = std::max_element(
        split.held.begin(), split.held.end(),
        [](const TrainingRun& a, const TrainingRun& b) { return a.layout.ranks < b.layout.ranks; });
    if (fewest->layout.ranks < most->layout.ranks) {
      const double predicted = times.at(most->id) / times.at(fewest->id);
      errors.push_back(100 * std::abs(predicted / (*most->seconds / *fewest->seconds) - 1));
    }
  }
  return median_of_sorted(errors);
}

}  // namespace commlens::test_support
