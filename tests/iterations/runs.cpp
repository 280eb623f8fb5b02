#include "tests/iterations/runs.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "commlens/base/csv.hpp"
#include "commlens/base/file.hpp"
#include "commlens/base/text.hpp"
#include "commlens/simulate/known_names.hpp"
#include "commlens/simulate/run_table.hpp"

namespace commlens::test_support {
namespace {

std::string content_of(const std::string& file) {
  const char* const data = std::getenv("COMMLENS_TEST_DATA");
  if (data == nullptr) {
    return "";
  }
  return read_text_file(std::filesystem::path(data) / "facts" / file, 1 << 28).value_or("");
}

CsvTable table_of_file(const std::string& file) {
  const Result<CsvTable> table = parse_csv(content_of(file));
  return table ? *table : CsvTable();
}

MeasuredRuns read_measured() {
  MeasuredRuns measured;
  const std::string content = content_of("throughput/dev.csv");
  if (content.empty()) {
    return measured;
  }
  std::set<std::string> strict;
  const Result<CsvTable> table = parse_csv(content);
  for (const CsvTable::Row& row : table->rows) {
    const std::string id = table->cell(row, "id");
    measured.version[id] = table->cell(row, "version");
    if (const Result<double> memory = parse_number(table->cell(row, "mem_gb")); memory) {
      measured.memory[id] = *memory;
    }
    if (table->cell(row, "strict") == "1" && !table->cell(row, "seconds_per_iteration").empty()) {
      strict.insert(id);
    }
  }
  const Result<std::vector<RunRow>> rows = parse_run_table("dev.csv", content);
  EXPECT_TRUE(rows) << rows.error().message;
  for (const RunRow& row : rows ? *rows : std::vector<RunRow>()) {
    if (strict.contains(row.id)) {
      EXPECT_EQ(row.reason, "") << row.id;
      measured.strict.push_back(row.run);
    }
  }
  const CsvTable suites = table_of_file("throughput/suites.csv");
  for (const CsvTable::Row& row : suites.rows) {
    measured.suites[suites.cell(row, "suite")].push_back(suites.cell(row, "id"));
  }
  const CsvTable floor = table_of_file("throughput/naive_40pct_mfu.csv");
  for (const CsvTable::Row& row : floor.rows) {
    measured.floor[floor.cell(row, "id")] =
        parse_number(floor.cell(row, "seconds_per_iteration")).value_or(0);
  }
  return measured;
}

TrainingRun single_node_run(const CsvTable& table, const CsvTable::Row& row) {
  const auto count = [&](std::string_view column) {
    return parse_integer(table.cell(row, column)).value_or(0);
  };
  TrainingRun run;
  run.id = "single-node-" + std::to_string(row.line);
  run.source = "vTrain";
  run.family = "A100-80, megatron";
  RunModel& model = run.model;
  model.hidden = count("hidden size");
  model.layers = count("# layers");
  model.name = "h" + std::to_string(model.hidden) + " L" + std::to_string(model.layers);
  model.heads = model.kv_heads = count("attention heads");
  model.head_dim = model.hidden / model.heads;
  model.ffn = 4 * model.hidden;
  model.vocab = 51200;
  model.sequence = count("sequence length");
  model.has_tied_embeddings = true;
  model.top_k = 1;
  RunLayout& layout = run.layout;
  layout.ranks = count("# GPUs");
  layout.tensor = count("tensor parallelism");
  layout.pipeline = count("pipeline parallelism");
  layout.expert_tensor = layout.tensor;
  layout.micro_batch = count("micro batch");
  layout.global_batch = count("global batch");
  layout.data_kind = DataParallelKind::replicated;
  run.behaviour = find_framework("Megatron-LM").behaviour;
  run.behaviour.recompute = Recompute::full;
  run.behaviour.has_fused_attention = false;
  run.behaviour.gradient_bytes = 2;
  run.hardware = find_accelerator("A100", 80)->hardware;
  run.hardware.memory_gb = 80;
  run.priors = find_accelerator("A100", 80)->priors;
  run.seconds = parse_number(table.cell(row, "iteration time (ms)")).value_or(0) / 1000;
  return run;
}

std::string group_of(const TrainingRun& run) {
  return run.source + "/" + run.model.name + "/" + std::to_string(run.model.layers) + "/" + run.hardware.gpu +
         "/" + std::to_string(run.layout.ranks) + "/" + std::to_string(run.model.sequence) + "/" +
         std::to_string(run.layout.global_batch) + "/" +
         std::to_string(static_cast<int>(run.behaviour.precision));
}

/// Median of one field over comparisons.
RunScore median_score(const std::vector<Comparison>& all, RunScore Comparison::* which) {
  RunScore result = all.front().*which;
  std::vector<double> means;
  std::vector<double> p90s;
  std::vector<double> taus;
  for (const Comparison& one : all) {
    means.push_back((one.*which).mean);
    p90s.push_back((one.*which).p90);
    taus.push_back((one.*which).tau);
  }
  result.mean = median_of(means);
  result.p90 = median_of(p90s);
  result.tau = median_of(taus);
  return result;
}

}  // namespace

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

const MeasuredRuns& measured_runs() {
  static const MeasuredRuns measured = read_measured();
  return measured;
}

std::vector<TrainingRun> suite_runs(const std::string& suite) {
  const MeasuredRuns& measured = measured_runs();
  std::set<std::string> ids;
  for (const auto& [name, members] : measured.suites) {
    if (name.starts_with(suite + "_")) {
      ids.insert(members.begin(), members.end());
    }
  }
  std::vector<TrainingRun> runs;
  for (const TrainingRun& run : measured.strict) {
    if (ids.contains(run.id)) {
      runs.push_back(run);
    }
  }
  return runs;
}

std::vector<TrainingRun> single_node_runs() {
  const CsvTable table = table_of_file("vtrain/single_node.csv");
  std::vector<TrainingRun> runs;
  for (const CsvTable::Row& row : table.rows) {
    runs.push_back(single_node_run(table, row));
  }
  return runs;
}

std::vector<TrainingRun> pytorch_runs(const std::string& gpu) {
  const char* const sources = std::getenv("COMMLENS_SOURCE_DIR");
  const std::filesystem::path file =
      std::filesystem::path(sources == nullptr ? "." : sources) / "tests/iterations/pytorch/runs.csv";
  const Result<std::vector<RunRow>> rows =
      read_text_file(file, 1 << 20).and_then([&](const std::string& content) {
        return parse_run_table("runs.csv", content);
      });
  EXPECT_TRUE(rows) << rows.error().message;
  std::vector<TrainingRun> runs;
  for (const RunRow& row : rows ? *rows : std::vector<RunRow>()) {
    EXPECT_EQ(row.reason, "") << row.id;
    if (row.run.hardware.gpu == gpu) {
      runs.push_back(row.run);
    }
  }
  return runs;
}

RunSplit split_runs(const std::vector<TrainingRun>& runs,
                    const std::function<bool(const TrainingRun&)>& is_fitted) {
  RunSplit split;
  for (const TrainingRun& run : runs) {
    (is_fitted(run) ? split.fitted : split.held).push_back(run);
  }
  return split;
}

RunSplit drawn_runs(const std::vector<TrainingRun>& runs, std::size_t count, std::uint32_t seed) {
  // A shuffle of our own: std::shuffle differs between libraries.
  std::mt19937 random(seed);
  std::vector<std::size_t> order(runs.size());
  for (std::size_t index = 0; index < order.size(); ++index) {
    order[index] = index;
  }
  for (std::size_t index = order.size(); index-- > 1;) {
    std::swap(order[index], order[random() % (index + 1)]);
  }
  std::vector<bool> is_drawn(runs.size());
  for (std::size_t index = 0; index < count; ++index) {
    is_drawn[order[index]] = true;
  }
  RunSplit split;
  for (std::size_t index = 0; index < runs.size(); ++index) {
    (is_drawn[index] ? split.fitted : split.held).push_back(runs[index]);
  }
  return split;
}

std::vector<RunSplit> leave_one_model_out(const std::vector<TrainingRun>& runs) {
  std::set<std::string> models;
  for (const TrainingRun& run : runs) {
    models.insert(run.model.name);
  }
  std::vector<RunSplit> splits;
  for (const std::string& model : models) {
    splits.push_back(split_runs(runs, [&](const TrainingRun& run) { return run.model.name != model; }));
  }
  return splits;
}

RunTimes model_times(const RunSplit& split) {
  const RunCalibration calibration = fitted_families(split.fitted, "test");
  RunTimes times;
  for (const TrainingRun& run : split.held) {
    times[run.id] = predicted_run(run, calibration).seconds;
  }
  return times;
}

RunScore score_of(const std::vector<TrainingRun>& held, const RunTimes& times) {
  RunScore score;
  std::vector<double> errors;
  std::map<std::string, std::vector<std::pair<double, double>>> groups;
  for (const TrainingRun& run : held) {
    const auto found = times.find(run.id);
    if (found != times.end()) {
      errors.push_back(100 * std::abs(found->second / *run.seconds - 1));
      groups[group_of(run)].emplace_back(found->second, *run.seconds);
    }
  }
  int agree = 0;
  for (const auto& [name, members] : groups) {
    for (std::size_t one = 0; one < members.size(); ++one) {
      for (std::size_t other = 0; other < one; ++other) {
        const auto& [first, first_true] = members[one];
        const auto& [second, second_true] = members[other];
        if (std::abs(first_true / second_true - 1) > 0.03) {
          ++score.pairs;
          agree += (first - second) * (first_true - second_true) > 0 ? 1 : -1;
        }
      }
    }
  }
  score.rows = errors.size();
  if (errors.empty()) {
    return score;
  }
  std::sort(errors.begin(), errors.end());
  for (const double error : errors) {
    score.mean += error / static_cast<double>(errors.size());
  }
  score.p90 = errors[static_cast<std::size_t>(0.9 * static_cast<double>(errors.size() - 1))];
  score.tau = score.pairs > 0 ? static_cast<double>(agree) / static_cast<double>(score.pairs) : 0;
  return score;
}

bool Comparison::beats_all() const {
  return model.mean < one_number.mean && model.mean < lookup.mean &&
         (floor.rows == 0 || model.mean < floor.mean);
}

Comparison compared(const std::vector<RunSplit>& splits) {
  std::vector<TrainingRun> held;
  RunTimes model;
  RunTimes one_number;
  RunTimes lookup;
  for (const RunSplit& split : splits) {
    held.insert(held.end(), split.held.begin(), split.held.end());
    model.merge(model_times(split));
    one_number.merge(one_number_times(split));
    lookup.merge(lookup_times(split));
  }
  return {score_of(held, model), score_of(held, one_number), score_of(held, lookup),
          score_of(held, measured_runs().floor)};
}

Comparison compared_drawings(const std::vector<TrainingRun>& runs, std::size_t count, std::uint32_t first) {
  constexpr std::uint32_t k_seeds = 10;
  std::vector<Comparison> all;
  for (std::uint32_t seed = first; seed < first + k_seeds; ++seed) {
    all.push_back(compared({drawn_runs(runs, count, seed)}));
  }
  return {median_score(all, &Comparison::model), median_score(all, &Comparison::one_number),
          median_score(all, &Comparison::lookup), median_score(all, &Comparison::floor)};
}

}  // namespace commlens::test_support
