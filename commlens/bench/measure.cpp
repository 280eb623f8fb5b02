#include "commlens/bench/measure.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace commlens::bench {
namespace {

/// Calls in a row of `back_to_back`; 0: it is not measured.
std::int64_t chained_calls(const PlannedRow& row) {
  const BenchCase& timed = row.calls.front().timed;
  if (row.calls.size() > 1 || timed.op == BenchOp::ping_pong || timed.op == BenchOp::bandwidth) {
    return 0;
  }
  constexpr std::int64_t k_small = std::int64_t{1} << 20;
  constexpr std::int64_t k_large = std::int64_t{64} << 20;
  return timed.bytes().value <= k_small ? 10 : timed.bytes().value <= k_large ? 4 : 2;
}

/// Messages whose time one sample has.
double messages_of(const PlannedRow& row) {
  const BenchOp op = row.calls.front().timed.op;
  return op == BenchOp::ping_pong   ? 2.0
         : op == BenchOp::bandwidth ? static_cast<double>(k_bandwidth_window)
                                    : 1.0;
}

/// What a rank's arena must hold for each row; `bytes_of` a call.
template <typename BytesOf>
Bytes largest_row_of(const MeasurePlan& plan, const BytesOf& bytes_of) {
  Bytes largest;
  for (const PlannedRow& row : plan.rows) {
    Bytes bytes;
    for (const PlannedCall& call : row.calls) {
      bytes += bytes_of(call);
    }
    // Calls in flight at once have buffers of their own, also where the second starts at the front again.
    largest = std::max(largest, row.calls.size() > 1 ? bytes * 2 : bytes);
  }
  return largest;
}

/// Cold buffers of all ranks of a machine are more than twice its cache.
Bytes least_memory_of(const MeasurePlan& plan, Bytes largest) {
  const std::int64_t ranks = std::max<std::int64_t>(plan.ranks_on_machine, 1);
  return plan.is_cold ? Bytes{2 * plan.cache.value / ranks} + largest : Bytes{};
}

/// The rows of one rank on its communicators.
class RankRows {
 public:
  RankRows(Communicator& world, const MeasurePlan& plan, std::function<bool()> stop_requested,
           std::function<void(const SetUp&)> sets_up)
      : world_(world),
        plan_(plan),
        stop_requested_(std::move(stop_requested)),
        sets_up_(std::move(sets_up)),
        wrong_(2 * plan.rows.size(), 0) {
    for (const GroupSet& set : plan.groups) {
      communicators_.push_back(communicator_of(world, set));
    }
    const Bytes largest = largest_row_of(plan, [&](const PlannedCall& call) {
      const auto& communicator = communicators_.at(call.groups);
      return communicator ? arena_bytes(call.timed, communicator->rank().value) : Bytes{};
    });
    const Bytes memory = std::max(largest, least_memory_of(plan, largest));
    arena_ = std::make_unique<Arena>(largest, memory, [&](Bytes done) {
      report({SetUp::Step::buffers, done.value, memory.value});
      return !stop_requested_ || !stop_requested_();
    });
    for (const PlannedRow& row : plan.rows) {
      std::vector<std::unique_ptr<CaseCalls>>& calls = calls_.emplace_back();
      for (const PlannedCall& call : row.calls) {
        if (communicators_.at(call.groups)) {
          calls.push_back(std::make_unique<CaseCalls>(call.timed, *communicators_[call.groups], *arena_));
        }
      }
    }
  }

  std::vector<TimedRow> timed() {
    std::vector<TimedRow> rows;
    for (std::size_t row = 0; row < plan_.rows.size(); ++row) {
      rows.push_back(timed_row(row, 1));
      if (const std::int64_t chained = chained_calls(plan_.rows[row]); chained > 0) {
        rows.push_back(timed_row(row, chained));
      }
    }
    return rows;
  }

  void report(const SetUp& set_up) const {
    if (sets_up_ && world_.rank().value == 0) {
      sets_up_(set_up);
    }
  }

  /// Two calls of each row, whose data differ. Returns whether all were made: no if the job is to stop.
  bool verify(std::int64_t first_iteration) {
    for (std::size_t row = 0; row < calls_.size(); ++row) {
      for (std::int64_t iteration = first_iteration; iteration < first_iteration + 2; ++iteration) {
        for (const std::unique_ptr<CaseCalls>& call : calls_[row]) {
          const Wrong wrong = call->verified(iteration);
          if (wrong.elements > 0 && wrong_[2 * row] == 0) {
            wrong_[2 * row + 1] = wrong.first;
          }
          wrong_[2 * row] += wrong.elements;
        }
      }
      report({SetUp::Step::verification, static_cast<std::int64_t>(row) + 1,
              static_cast<std::int64_t>(calls_.size())});
      if (agreed_to_stop(world_, stop_requested_)) {
        return false;
      }
    }
    return true;
  }

  /// Wrong elements of all ranks to the result of the first one.
  void gather_wrong(Measured& result) {
    const auto own = static_cast<std::int64_t>(wrong_.size());
    std::vector<std::int64_t> all(static_cast<std::size_t>(own * world_.size()));
    world_.run({.kind = CommKind::all_gather,
                .dtype = DType::int64,
                .input_buffer = wrong_.data(),
                .output_buffer = all.data(),
                .input = {own},
                .output = {own * world_.size()}});
    for (std::size_t at = 0; at < all.size(); at += 2) {
      const std::size_t rank = at / wrong_.size();
      MeasuredRow& row = result.rows.at(at % wrong_.size() / 2);
      row.wrong_elements += all[at];
      if (all[at] > 0 && row.wrong.empty()) {
        row.wrong = fmt::format("element {} of rank {}", all[at + 1], rank);
      }
    }
  }

 private:
  TimedRow timed_row(std::size_t row, std::int64_t chained) {
    TimedRow timed{.name = std::string(name_of(plan_.rows[row].calls.front().timed.op)), .call = {}};
    std::vector<std::unique_ptr<CaseCalls>>& calls = calls_[row];
    if (calls.empty()) {
      return timed;
    }
    if (calls.size() > 1) {
      timed.call = [&calls] {
        std::vector<std::unique_ptr<Work>> works;
        for (const std::unique_ptr<CaseCalls>& call : calls) {
          works.push_back(call->start());
        }
        for (const std::unique_ptr<Work>& work : works) {
          work->wait();
        }
      };
    } else if (chained == 1) {
      timed.call = [&call = *calls.front()] { call.run(); };
    } else {
      timed.call = [&call = *calls.front(), chained, is_cold = plan_.is_cold] {
        for (std::int64_t made = 0; made < chained; ++made) {
          if (is_cold) {
            call.take_buffers();
          }
          call.run();
        }
      };
    }
    timed.prepare = preparation(row, timed.call, chained);
    return timed;
  }

  /// Hot: the same call before, so that its buffers are in the caches, where they fit. Cold: other buffers.
  std::function<void()> preparation(std::size_t row, const std::function<void()>& call,
                                    std::int64_t chained) {
    if (plan_.is_cold) {
      return [&calls = calls_[row]] {
        for (const std::unique_ptr<CaseCalls>& each : calls) {
          each->take_buffers();
        }
      };
    }
    const bool fits = plan_.rows[row].calls.front().timed.bytes() < plan_.cache;
    return fits && chained == 1 ? call : std::function<void()>();
  }

  Communicator& world_;
  const MeasurePlan& plan_;
  std::function<bool()> stop_requested_;
  std::function<void(const SetUp&)> sets_up_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::unique_ptr<Arena> arena_;
  std::vector<std::vector<std::unique_ptr<CaseCalls>>> calls_;
  std::vector<std::int64_t> wrong_;  // of each row: elements, and where the first is
};

/// The rounds' rows as rows of the plan.
Measured measured(const MeasurePlan& plan, const RoundResult& rounds) {
  Measured result;
  result.rows.resize(plan.rows.size());
  std::size_t place = 0;
  for (std::size_t row = 0; row < plan.rows.size(); ++row) {
    result.rows[row].one = rounds.rows.at(place++);
    result.rows[row].messages = messages_of(plan.rows[row]);
    if (const std::int64_t chained = chained_calls(plan.rows[row]); chained > 0) {
      result.rows[row].back_to_back_s = rounds.rows.at(place++).span_s;
      for (double& time : result.rows[row].back_to_back_s) {
        time /= static_cast<double>(chained);
      }
    }
  }
  result.clock_error_s = rounds.clock_error_s;
  result.rounds = rounds.rounds;
  result.timed_rows = rounds.timed_rows;
  result.was_stopped = rounds.was_stopped;
  return result;
}

}  // namespace

Bytes buffer_memory(const MeasurePlan& plan) {
  // The first rank of a group has a root's buffers, the last one the largest part and a window's messages;
  // any one of parts that were given.
  const Bytes largest = largest_row_of(plan, [](const PlannedCall& call) {
    const std::int64_t last = call.timed.ranks - 1;
    Bytes most;
    for (std::int64_t rank = 0; rank <= last;
         rank += call.timed.parts.empty() ? std::max(last, std::int64_t{1}) : 1) {
      most = std::max(most, arena_bytes(call.timed, rank));
    }
    return most;
  });
  return std::max(largest, least_memory_of(plan, largest)) * std::max<std::int64_t>(plan.ranks_on_machine, 1);
}

std::int64_t row_count(const MeasurePlan& plan) {
  return std::count_if(plan.rows.begin(), plan.rows.end(),
                       [](const PlannedRow& row) { return chained_calls(row) > 0; }) +
         static_cast<std::int64_t>(plan.rows.size());
}

Measured measure(Communicator& world, const MeasurePlan& plan, const RoundOptions& rounds,
                 const std::function<void(const Measured&)>& has_more,
                 const std::function<void(const SetUp&)>& sets_up) {
  RankRows rows(world, plan, rounds.stop_requested, sets_up);
  if (agreed_to_stop(world, rounds.stop_requested)) {  // perhaps with buffers that are not ready
    Measured stopped;
    stopped.rows.resize(plan.rows.size());
    stopped.was_stopped = true;
    return stopped;
  }
  RoundOptions options = rounds;
  options.has_first = [&](std::int64_t made) {
    rows.report({SetUp::Step::first_calls, made, row_count(plan)});
  };
  if (plan.verifies) {
    options.after_first = [&] { return rows.verify(0); };
  }
  if (has_more) {
    options.has_more = [&](const RoundResult& so_far) { has_more(measured(plan, so_far)); };
  }
  const std::vector<TimedRow> timed = rows.timed();
  Measured result = measured(plan, timed_rounds(world, timed, options));
  if (plan.verifies && !result.was_stopped) {
    result.was_stopped = !rows.verify(2);
    rows.gather_wrong(result);
  }
  result.is_partial = result.was_stopped;
  return result;
}

Bytes last_level_cache() {
  constexpr std::int64_t k_usual = std::int64_t{32} << 20;
  for (const int level : {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    if (const long size = sysconf(level); size > 0) {
      return {size};
    }
  }
  return {k_usual};
}

}  // namespace commlens::bench
