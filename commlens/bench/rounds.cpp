#include "commlens/bench/rounds.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include <sys/resource.h>

#include "commlens/bench/clock_sync.hpp"
#include "commlens/bench/median.hpp"

namespace commlens::bench {
namespace {

constexpr std::int64_t k_absent = std::numeric_limits<std::int64_t>::min();  // below every time

/// What a rank knows of one sample.
struct Stamps {
  std::size_t row = 0;
  std::int64_t round = 0;
  std::int64_t entry_ns = k_absent;
  std::int64_t exit_ns = k_absent;
  std::int64_t switches = 0;
};

std::int64_t involuntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

void all_reduce(Communicator& world, std::vector<std::int64_t>& values, ReduceOp reduction) {
  const Elements count{static_cast<std::int64_t>(values.size())};
  world.run({.kind = CommKind::all_reduce,
             .dtype = DType::int64,
             .reduction = reduction,
             .input_buffer = values.data(),
             .output_buffer = values.data(),
             .input = count,
             .output = count});
}

void from_first(Communicator& world, std::vector<std::int64_t>& values) {
  const Elements count{static_cast<std::int64_t>(values.size())};
  world.run({.kind = CommKind::broadcast,
             .dtype = DType::int64,
             .input_buffer = values.data(),
             .output_buffer = values.data(),
             .input = count,
             .output = count,
             .peer = {0}});
}

/// The same numbers on every machine: std::shuffle leaves the algorithm to the library.
void shuffle(std::vector<std::size_t>& order, std::mt19937_64& random) {
  for (std::size_t last = order.size(); last > 1; --last) {
    std::swap(order[last - 1], order[random() % last]);
  }
}

bool is_settled(const RowSamples& samples, const RoundOptions& options) {
  if (static_cast<std::int64_t>(samples.span_s.size()) < options.least_rounds) {
    return false;
  }
  const std::optional<MedianInterval> interval = median_interval(samples.span_s);
  return interval && (interval->high - interval->low) / 2 <= options.settled * interval->median;
}

/// The rounds of one rank. Times stay in its memory for some rounds, then all ranks exchange them and the
/// first one decides how to go on, so that deciding disturbs few calls.
class Rounds {
 public:
  Rounds(Communicator& world, const std::vector<TimedRow>& rows, const RoundOptions& options)
      : world_(world),
        rows_(rows),
        options_(options),
        random_(options.seed),
        is_first_(world.rank().value == 0),
        active_(rows.size()),
        spent_ns_(rows.size(), 0) {
    std::iota(active_.begin(), active_.end(), std::size_t{0});
    result_.rows.resize(rows.size());
    if (!share_a_clock(world) || options.clock) {
      drift_.emplace();
      drift_->last_at_ns = now();
      drift_->last = measured_offset(world, [this] { return now(); });
    }
  }

  RoundResult run() {
    std::int64_t batch = 1;  // the first calls
    while (!active_.empty() && batch > 0) {
      const std::int64_t began = monotonic_ns();
      for (std::int64_t done = 0; done < batch && !is_stopping_; ++done) {
        make_round();
      }
      exchange();
      batch = decide(batch, monotonic_ns() - began);
      if (result_.rounds == 1 && batch > 0 && options_.after_first && !options_.after_first()) {
        result_.was_stopped = true;
        batch = 0;
      }
    }
    return std::move(result_);
  }

 private:
  std::int64_t now() const { return options_.clock ? options_.clock() : monotonic_ns(); }

  bool is_first_round() const { return result_.rounds == 0; }

  void make_round() {
    std::vector<std::size_t> order = active_;
    if (!is_first_round()) {
      shuffle(order, random_);
    }
    for (std::size_t made = 0; made < order.size() && !is_stopping_; ++made) {
      make_sample(order[made]);
      if (is_first_round() && is_first_ && options_.has_first) {
        options_.has_first(static_cast<std::int64_t>(made) + 1);
      }
      // Not after each row of short rounds: the message would disturb the next one.
      is_stopping_ =
          (is_first_round() || has_long_rounds_) && agreed_to_stop(world_, options_.stop_requested);
    }
    ++result_.rounds;
  }

  void make_sample(std::size_t row) {
    const TimedRow& timed = rows_[row];
    Stamps stamps{.row = row, .round = result_.rounds};
    const std::int64_t began = monotonic_ns();
    if (timed.prepare && !is_first_round()) {  // it may make the call
      timed.prepare();
    }
    const std::int64_t switches = involuntary_switches();
    world_.barrier();
    if (timed.call) {
      stamps.entry_ns = now();
      timed.call();
      stamps.exit_ns = now();
      stamps.switches = involuntary_switches() - switches;
    }
    spent_ns_[row] += monotonic_ns() - began;
    batch_.push_back(stamps);
  }

  /// Syncs the clocks again and brings the times of all ranks together.
  void exchange() {
    if (drift_) {
      drift_->first_at_ns = drift_->last_at_ns;
      drift_->first = drift_->last;
      drift_->last_at_ns = now();
      drift_->last = measured_offset(world_, [this] { return now(); });
    }
    constexpr std::size_t k_times = 4;
    std::vector<std::int64_t> times;
    std::vector<std::int64_t> switches;
    for (const Stamps& stamps : batch_) {
      const bool is_absent = stamps.entry_ns == k_absent;
      const std::int64_t entry = is_absent ? k_absent : on_one_clock(stamps.entry_ns);
      times.push_back(is_absent ? k_absent : -entry);  // the largest is the first entry
      times.push_back(entry);
      times.push_back(is_absent ? k_absent : on_one_clock(stamps.exit_ns));
      times.push_back(is_absent ? k_absent : stamps.exit_ns - stamps.entry_ns);
      switches.push_back(stamps.switches);
    }
    switches.push_back(options_.stop_requested && options_.stop_requested() ? 1 : 0);
    all_reduce(world_, times, ReduceOp::max);
    all_reduce(world_, switches, ReduceOp::sum);
    is_stopping_ = is_stopping_ || switches.back() > 0;
    if (is_first_) {
      for (std::size_t place = 0; place < batch_.size(); ++place) {
        add_sample(batch_[place], std::span(times).subspan(place * k_times, k_times), switches[place]);
      }
    }
    batch_.clear();
    if (drift_) {
      std::vector<std::int64_t> error = {std::max(drift_->first.error_ns, drift_->last.error_ns)};
      all_reduce(world_, error, ReduceOp::max);
      // Each of two ranks may be wrong by it.
      result_.clock_error_s = std::max(result_.clock_error_s, 2e-9 * static_cast<double>(error[0]));
    }
  }

  std::int64_t on_one_clock(std::int64_t own_ns) const { return drift_ ? drift_->corrected(own_ns) : own_ns; }

  void add_sample(const Stamps& stamps, std::span<const std::int64_t> times, std::int64_t switches) {
    if (times[1] == k_absent) {
      return;  // a row that no rank takes part in
    }
    RowSamples& samples = result_.rows[stamps.row];
    const std::int64_t first_entry = -times[0];
    const double span = 1e-9 * static_cast<double>(times[2] - first_entry);
    if (stamps.round == 0) {
      samples.first_s = span;
      return;
    }
    samples.span_s.push_back(span);
    samples.skew_s.push_back(1e-9 * static_cast<double>(times[1] - first_entry));
    samples.local_s.push_back(1e-9 * static_cast<double>(times[3]));
    samples.round.push_back(stamps.round);
    samples.switches.push_back(switches);
  }

  /// The number of rounds until the next exchange; 0: all is done. The first rank decides, for all.
  std::int64_t decide(std::int64_t batch, std::int64_t took_ns) {
    constexpr std::int64_t k_long_round_ns = 300'000'000;
    // Rounds, whether they are long, and which rows go on.
    std::vector<std::int64_t> decision(rows_.size() + 2, 0);
    if (is_first_) {
      for (const std::size_t row : active_) {
        decision[row + 2] = goes_on(row) ? 1 : 0;
      }
      result_.was_stopped = is_stopping_;
      decision[0] = result_.was_stopped ? 0 : next_batch(batch, took_ns);
      decision[1] = took_ns / batch > k_long_round_ns ? 1 : 0;
    }
    from_first(world_, decision);
    result_.was_stopped = decision[0] == 0;
    has_long_rounds_ = decision[1] == 1;
    std::erase_if(active_, [&](std::size_t row) { return decision[row + 2] == 0; });
    result_.timed_rows = static_cast<std::int64_t>(rows_.size() - active_.size());
    if (is_first_ && options_.has_more) {
      options_.has_more(result_);
    }
    return decision[0];
  }

  bool goes_on(std::size_t row) const {
    const RowSamples& samples = result_.rows[row];
    const bool has_none = samples.span_s.empty();
    const bool is_over = spent_ns_[row] >= options_.time.count() && !has_none;
    return result_.rounds <= options_.most_rounds && !is_over && !is_settled(samples, options_);
  }

  std::int64_t next_batch(std::int64_t batch, std::int64_t took_ns) const {
    constexpr std::int64_t k_between_exchanges_ns = 100'000'000;
    const std::int64_t a_round = std::max<std::int64_t>(took_ns / batch, 1);
    const std::int64_t to_least = options_.least_rounds + 1 - result_.rounds;
    const std::int64_t to_most = options_.most_rounds + 1 - result_.rounds;
    const std::int64_t wanted = std::clamp<std::int64_t>(k_between_exchanges_ns / a_round, 1, 100);
    return std::max<std::int64_t>(std::min({wanted, to_least > 0 ? to_least : wanted, to_most}), 1);
  }

  Communicator& world_;
  const std::vector<TimedRow>& rows_;
  const RoundOptions& options_;
  std::mt19937_64 random_;
  bool is_first_;
  std::vector<std::size_t> active_;     // rows that are timed on
  std::vector<std::int64_t> spent_ns_;  // by each row
  std::vector<Stamps> batch_;
  bool has_long_rounds_ = false;  // between whose rows ranks ask whether to stop
  bool is_stopping_ = false;
  std::optional<ClockDrift> drift_;  // absent where all ranks read one clock
  RoundResult result_;
};

}  // namespace

bool agreed_to_stop(Communicator& world, const std::function<bool()>& stop_requested) {
  std::vector<std::int64_t> answer = {stop_requested && stop_requested() ? std::int64_t{1} : 0};
  all_reduce(world, answer, ReduceOp::max);
  return answer[0] == 1;
}

RoundResult timed_rounds(Communicator& world, const std::vector<TimedRow>& rows,
                         const RoundOptions& options) {
  return Rounds(world, rows, options).run();
}

}  // namespace commlens::bench
