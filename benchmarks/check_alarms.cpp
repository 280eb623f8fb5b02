// How often `bench --check` is wrong, over two threads:
//   check_alarms [PAIRS [LAUNCHES [EVERY_MS [FACTOR]]]]
// Each pair is an earlier result and a later one of the same calls (a false alarm where a row is slower), and
// one more whose all_reduce takes FACTOR times as long (1.15), which --check should find, and it alone. With
// EVERY_MS 0, launches follow one another at once and count one by one. Prints a line per pair and the sums.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/app/bench.hpp"
#include "commlens/bench/clock_sync.hpp"

namespace {

using namespace commlens;  // NOLINT(google-build-using-namespace): a program, not a header

/// Decorates a communicator: its all_reduces of fp32 take `factor` times as long.
class SlowCommunicator final : public Communicator {
 public:
  SlowCommunicator(std::unique_ptr<Communicator> below, double factor)
      : below_(std::move(below)), factor_(factor) {}
  const std::vector<Rank>& members() const override { return below_->members(); }
  GroupRank rank() const override { return below_->rank(); }
  bool makes_progress() const override { return below_->makes_progress(); }
  bool starting_pays() const override { return below_->starting_pays(); }
  std::unique_ptr<Work> start(const CommCall& call) override { return below_->start(call); }
  void run(const CommCall& call) override {
    const std::int64_t began = bench::monotonic_ns();
    below_->run(call);
    if (call.kind == CommKind::all_reduce && call.dtype == DType::fp32 && factor_ > 1) {
      const std::int64_t took = bench::monotonic_ns() - began;
      const auto until = began + static_cast<std::int64_t>(static_cast<double>(took) * factor_);
      while (bench::monotonic_ns() < until) {
      }
    }
  }
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    auto part = below_->split(color, key);
    return part == nullptr ? nullptr : std::make_unique<SlowCommunicator>(std::move(part), factor_);
  }
  void abort(std::string_view reason) override { below_->abort(reason); }

 private:
  std::unique_ptr<Communicator> below_;
  double factor_;
};

struct Settings {
  std::int64_t pairs = 20;
  std::int64_t launches = 10;
  std::int64_t every_ms = 500;
  double factor = 1.15;
};

BenchRun measured_run(const Settings& settings, double factor) {
  BenchRequest request;
  request.ops = {"all_reduce", "all_gather", "broadcast"};
  request.sizes = "8,64K,1M";
  request.ranks = 2;
  request.launches = settings.launches;
  request.launch_every = std::chrono::milliseconds(settings.every_ms);
  request.time = std::chrono::milliseconds(50);
  request.decorate = [factor](std::unique_ptr<Communicator> world) -> std::unique_ptr<Communicator> {
    return std::make_unique<SlowCommunicator>(std::move(world), factor);
  };
  const Result<BenchResult> result = bench_calls(request);
  if (!result) {
    fmt::print(stderr, "{}\n", result.error().message);
    std::exit(2);
  }
  BenchRun run = result->run;
  for (BenchLaunch& launch : run.launches) {
    if (settings.every_ms == 0) {
      launch.began_ns.reset();
    }
  }
  return run;
}

/// What a check of two results says.
struct CheckVerdict {
  bool finds_all_reduce = false;
  bool finds_another = false;
  bool finds_all = false;       // all rows together
  bool is_significant = false;  // some row, by p alone
  double most = 0;              // ratio of a row
  double most_relative = 0;     // against the others

  bool is_alarm() const { return finds_all_reduce || finds_another || finds_all; }
};

CheckVerdict verdict_of(const BenchRun& before, const BenchRun& now) {
  CheckVerdict verdict;
  const auto checks = check_bench(before, now);
  if (!checks) {
    fmt::print(stderr, "{}\n", checks.error().message);
    std::exit(2);
  }
  verdict.finds_all = checks->all && checks->all->is_slower;
  for (const BenchOpCheck& op : checks->ops) {
    const bool is_planted = op.op == "all_reduce";
    verdict.finds_all_reduce = verdict.finds_all_reduce || (op.shift.is_slower && is_planted);
    verdict.finds_another = verdict.finds_another || (op.shift.is_slower && !is_planted);
  }
  for (const BenchCheck& check : checks->rows) {
    const bool is_planted = check.key.op == "all_reduce";
    verdict.finds_all_reduce = verdict.finds_all_reduce || (check.is_slower && is_planted);
    verdict.finds_another = verdict.finds_another || (check.is_slower && !is_planted);
    const double ratio = check.relative_ratio.value_or(check.ratio());
    verdict.is_significant = verdict.is_significant || (check.p_adjusted < 0.01 && ratio > 1);
    verdict.most = std::max(verdict.most, check.ratio());
    verdict.most_relative = std::max(verdict.most_relative, ratio);
  }
  return verdict;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  const std::vector<std::string> given(argv + 1, argv + argc);
  settings.pairs = given.empty() ? settings.pairs : std::stoll(given[0]);
  settings.launches = given.size() < 2 ? settings.launches : std::stoll(given[1]);
  settings.every_ms = given.size() < 3 ? settings.every_ms : std::stoll(given[2]);
  settings.factor = given.size() < 4 ? settings.factor : std::stod(given[3]);
  std::int64_t false_alarms = 0;
  std::int64_t by_p_alone = 0;
  std::int64_t found = 0;
  std::int64_t found_others = 0;
  for (std::int64_t pair = 0; pair < settings.pairs; ++pair) {
    const BenchRun before = measured_run(settings, 1);
    const CheckVerdict same = verdict_of(before, measured_run(settings, 1));
    const CheckVerdict slow = verdict_of(before, measured_run(settings, settings.factor));
    false_alarms += same.is_alarm() ? 1 : 0;
    by_p_alone += same.is_significant ? 1 : 0;
    found += slow.finds_all_reduce ? 1 : 0;
    found_others += slow.finds_another || slow.finds_all ? 1 : 0;
    fmt::print(
        "pair {:2}: the same {:.3f} x at most, {:.3f} x against other rows{}; slowed {:.3f} x, {:.3f} "
        "x{}{}\n",
        pair + 1, same.most, same.most_relative, same.is_alarm() ? ", FALSE ALARM" : "", slow.most,
        slow.most_relative, slow.finds_all_reduce ? ", found" : ", MISSED",
        slow.finds_another ? ", and another row"
        : slow.finds_all   ? ", and all rows"
                           : "");
    std::fflush(stdout);
  }
  fmt::print(
      "{} pairs of {} launches, {} ms apart: {} false alarms ({} by p < 0.01 alone), {:.2f} x found {} "
      "times, another "
      "row, or all, then {} times\n",
      settings.pairs, settings.launches, settings.every_ms, false_alarms, by_p_alone, settings.factor, found,
      found_others);
  return 0;
}
