// docs/results/search.md is what the search finds for built-in models, and where published layouts stand in
// it. With COMMLENS_WRITE_RESULTS=1 it is written instead of compared.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/app/search_layouts.hpp"
#include "commlens/base/file.hpp"
#include "tests/iterations/runs.hpp"

namespace commlens {
namespace {

using namespace test_support;

std::filesystem::path search_page() {
  const char* const directory = std::getenv("COMMLENS_SOURCE_DIR");
  return std::filesystem::path(directory == nullptr ? "." : directory) / "docs/results/search.md";
}

struct Case {
  const char* model;
  const char* machine;
  std::int64_t devices;
  std::int64_t sequences;
  std::int64_t sequence;
};

constexpr Case k_cases[] = {
    {"1.3B", "dgx_a100", 64, 512, 2048},
    {"llama3-8b", "dgx_h100", 64, 512, 8192},
    {"llama3-70b", "dgx_h100", 512, 512, 8192},
    {"175B", "dgx_h100", 64, 1536, 2048},
    {"175B", "dgx_h100", 1024, 1536, 2048},
    {"175B", "hgx_b200", 1024, 1536, 2048},
    {"llama3-405b", "dgx_h100", 2048, 512, 8192},
    {"mixtral-8x7b", "dgx_h100", 256, 256, 4096},
    {"deepseek-v3", "gb200_nvl72", 288, 4608, 4096},
    {"llama3-70b", "mi300x", 256, 512, 8192},
};

std::string case_line(const Case& each) {
  SearchRequest request;
  request.config = {each.model};
  request.machine = each.machine;
  request.ranks = each.devices;
  request.global_batch = each.sequences;
  request.sequence = each.sequence;
  const Result<SearchResult> result = search_layouts(request);
  if (!result) {
    ADD_FAILURE() << result.error().message;
    return "";
  }
  const SearchAnswer& answer = result->answer;
  const Ranking& ranking = answer.ranking;
  const RankedLayout& best = ranking.fastest.front();
  const TimedSpace& timed = answer.searched.of(best.layout.data_kind);
  const TimeRange range = range_of(answer.searched, best);
  return fmt::format(
      "| {} | {} {} | {} x {} | {} | {} | {:.3g} s ({:.3g} to {:.3g}) | {:.1f} % | {} | {} | {} |\n",
      each.model, each.devices, each.machine, each.sequences, each.sequence, ranking.evaluated,
      ranking.fitting, best.seconds, range.low, range.high, 100 * mfu_of(timed.base, best),
      layout_text(best.layout, best.behaviour), ranking.equal, timed.basis.provenance);
}

/// Runs of one model, whose layouts others chose: predicted times over that of the first of the search.
struct PublishedLayouts {
  std::vector<double> longer;
  std::vector<double> switched;  // with the best sequence parallelism and overlaps
  std::int64_t found = 0;        // the first has the same degrees, chunks, micro-batch and recomputation
  std::int64_t equal = 0;        // within the error
  std::int64_t too_large = 0;    // for memory, by the estimate
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds of the layout of the run with the best switches.
double switched_seconds(const TrainingRun& run, const RunBasis& basis, const SearchSpace& space) {
  double best = iteration_time(run, basis.coefficients).total();
  for_each_layout(run, basis.coefficients, space, [&](const EvaluatedLayout& layout) {
    const RunLayout& tried = layout.run.layout;
    const RunLayout& known = run.layout;
    const bool has_degrees = tried.tensor == known.tensor && tried.pipeline == known.pipeline &&
                             tried.context == known.context && tried.expert == known.expert &&
                             tried.expert_tensor == known.expert_tensor;
    if (has_degrees && tried.virtual_stages == known.virtual_stages &&
        tried.micro_batch == known.micro_batch && layout.run.behaviour.recompute == run.behaviour.recompute) {
      best = std::min(best, layout.seconds);
    }
  });
  return best;
}

/// What the search has to find again: the same devices, batch, precision and framework.
SearchSpace space_of_run(const TrainingRun& run) {
  SearchSpace space;
  space.kinds = {run.layout.data_kind};
  return space;
}

double memory_of_device(const TrainingRun& run) {
  return (run.hardware.gpu == "B200" ? 180.0 : 80.0) * (1LL << 30);
}

std::map<std::string, PublishedLayouts> published_layouts() {
  std::map<std::string, PublishedLayouts> models;
  for (const TrainingRun& run : measured_runs().strict) {
    const RunBasis basis = basis_of(run, built_in_calibration());
    if (!basis.provenance.starts_with("calibrated") ||
        (run.family != "H100, nemo" && run.family != "B200, megatron")) {
      continue;
    }
    const TimedSpace timed{.framework = "", .base = run, .space = space_of_run(run), .basis = basis};
    const Ranking ranking = ranked_layouts({&timed, 1}, {memory_of_device(run), 1});
    PublishedLayouts& model = models[fmt::format("{} | {}", run.model.name, run.family)];
    if (ranking.fastest.empty()) {
      continue;
    }
    const double first = ranking.fastest.front().seconds;
    const double longer = iteration_time(run, basis.coefficients).total() / first;
    model.longer.push_back(longer);
    model.switched.push_back(switched_seconds(run, basis, space_of_run(run)) / first);
    model.found += model.switched.back() <= 1 + 1e-9 ? 1 : 0;
    model.equal += longer <= std::exp(basis.spread) ? 1 : 0;
    model.too_large += memory_bytes_of(run) > memory_of_device(run) ? 1 : 0;
  }
  return models;
}

std::string published_table() {
  std::string text =
      "| model | family | layouts | longer than the first, median | most | with the best switches, median | "
      "found again | equal within the error | too large by our estimate "
      "|\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n";
  for (const auto& [name, model] : published_layouts()) {
    if (!model.longer.empty()) {
      text += fmt::format("| {} | {} | {:+.1f} % | {:+.1f} % | {:+.1f} % | {} | {} | {} |\n", name,
                          model.longer.size(), 100 * (median(model.longer) - 1),
                          100 * (*std::max_element(model.longer.begin(), model.longer.end()) - 1),
                          100 * (median(model.switched) - 1), model.found, model.equal, model.too_large);
    }
  }
  return text;
}

TEST(SearchResults, AreThoseOfThePage) {
  if (measured_runs().strict.empty()) {
    GTEST_SKIP() << "COMMLENS_TEST_DATA names no directory with facts/throughput";
  }
  std::string page =
      "# What the search finds\n\n"
      "The first of the list of [`commlens search`](../search.md) for some models. Written by\n\n"
      "```sh\nCOMMLENS_TEST_DATA=DIRECTORY COMMLENS_WRITE_RESULTS=1 build/release/tests/tests_iterations "
      "--gtest_filter='SearchResults.*'\n```\n\n"
      "| model | devices | batch | layouts | fit | time | MFU | the first | equal within the error | times "
      "|\n"
      "|---|---|--:|--:|--:|--:|--:|---|--:|---|\n";
  for (const Case& each : k_cases) {
    page += case_line(each);
  }
  page +=
      "\n## Published layouts\n\n"
      "Layouts that others chose for their runs, against the first of the search on the same devices with "
      "the same "
      "batch,\nprecision and kind of data parallelism, both by the closed form. What is left with the best "
      "switches "
      "(sequence\nparallelism, overlaps) is the choice of degrees, chunks, micro-batch and recomputation. "
      "Where the "
      "first takes less time it fills\nmemory that the published layout leaves free: larger micro-batches, "
      "fewer ranks that "
      "share a layer; of mixtures it overlaps\nexperts, which no run here did, so that this much is not "
      "measured.\n\n" +
      published_table();
  if (std::getenv("COMMLENS_WRITE_RESULTS") != nullptr) {
    write_file_atomically(search_page(), page);
    return;
  }
  const Result<std::string> now = read_text_file(search_page(), 1 << 24);
  ASSERT_TRUE(now) << now.error().message;
  EXPECT_EQ(*now, page) << "docs/results/search.md: write it with COMMLENS_WRITE_RESULTS=1";
}

}  // namespace
}  // namespace commlens
