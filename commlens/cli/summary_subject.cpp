#include "commlens/cli/summary_subject.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "commlens/cli/progress.hpp"
#include "commlens/cli/trace_source.hpp"
#include "commlens/summary/stragglers.hpp"
#include "commlens/summary/time_tally.hpp"
#include "commlens/trace/call_blocks.hpp"
#include "commlens/trace/call_source.hpp"
#include "commlens/trace/stream_layout.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

/// At least as many calls as a native folder holds.
std::int64_t most_calls_of(const std::filesystem::path& folder) {
  std::uintmax_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::uintmax_t size = entry.path().extension() == ".bin" ? entry.file_size(error) : 0;
    bytes += error ? 0 : size;
  }
  return static_cast<std::int64_t>(bytes / sizeof(StreamRecord));
}

/// The iterations of all calls of a trace, whoever made them.
class Iterations {
 public:
  explicit Iterations(const std::optional<IterationRange>& wanted) : wanted_(wanted) {}

  void add(const CallBlock& block) {
    for (const CommEvent& event : block.events) {
      if (event.iteration != latest_ && event.iteration != k_unknown_iteration) {
        latest_ = event.iteration;
        first_ = std::min(first_, latest_);
        last_ = std::max(last_, latest_);
        has_wanted_ |= wanted_ && latest_ >= wanted_->first && latest_ <= wanted_->second;
      }
    }
  }

  bool lacks_wanted() const { return wanted_ && !has_wanted_; }

  tl::unexpected<Error> none_in(const std::string& wish) const {
    return first_ > last_ ? failure(fmt::format(
                                "--iterations {}: the trace does not say which iteration a call is of", wish))
                          : failure(fmt::format("--iterations {}: the trace has iterations {} to {}", wish,
                                                first_, last_));
  }

 private:
  std::optional<IterationRange> wanted_;
  bool has_wanted_ = false;
  Iteration latest_ = k_unknown_iteration;
  Iteration first_ = INT32_MAX;
  Iteration last_ = INT32_MIN;
};

/// Where the time of a large folder went, as far as its totals tell.
TimingTotals timing_of(const CallSource& source, const SummaryWish& wish, TimeTally& tally,
                       const IterationFacts& facts) {
  TimingTotals timing{tally.finish(k_most_calls_in_memory), std::nullopt};
  if (!wish.with_stragglers) {
    return timing;
  }
  timing.waits = stragglers(source, facts, {.iterations = wish.options.iterations});
  select_rank(*timing.waits, {wish.options.iterations, wish.options.rank});
  return timing;
}

Result<SummarySubject> streamed(Console& console, const SummaryWish& wish, Iterations& iterations) {
  const Progress progress(console, fmt::format("reading {}", wish.trace), 0);
  Result<FolderCalls> calls = FolderCalls::open(wish.trace);
  if (!calls) {
    return tl::unexpected(calls.error());
  }
  const CallSource source = calls->source();
  SummaryBuilder builder(wish.options);
  IterationSurvey survey;
  TimeTally tally(source, {wish.options.iterations, wish.options.rank});
  calls->visit([&](const CallBlock& block) {
    builder.add(block);
    iterations.add(block);
    if (wish.with_timing) {
      survey.add(block);
      tally.add(block);
    }
  });
  SummarySubject subject;
  subject.has_calls = false;
  subject.summary = builder.finish(calls->tables());
  add_computing(source, wish.options, subject.summary);
  const bool has_times = subject.summary.time || subject.summary.computing_ranks > 0;
  if (wish.with_timing && has_times && !subject.summary.coverage.averaged_times) {
    subject.timing = timing_of(source, wish, tally, survey.facts());
  }
  subject.trace = std::move(*calls).take_tables();
  return subject;
}

Result<SummarySubject> in_memory(Console& console, const SummaryWish& wish, Iterations& iterations) {
  Result<Trace> trace = open_trace(console, wish.trace);
  if (!trace) {
    return tl::unexpected(trace.error());
  }
  SummarySubject subject{.trace = std::move(*trace), .summary = {}, .options = {}, .timing = {}};
  subject.summary = summarise(subject.trace, wish.options);
  visit_calls(subject.trace, [&](const CallBlock& block) { iterations.add(block); });
  return subject;
}

}  // namespace

Result<SummarySubject> summary_subject(Console& console, SummaryWish wish) {
  const Result<std::optional<IterationRange>> range = iteration_range(wish.iterations);
  if (!range) {
    return tl::unexpected(range.error());
  }
  wish.options.iterations = *range;
  Iterations iterations(*range);
  const bool is_large = is_trace(wish.trace) && most_calls_of(wish.trace) > wish.most_calls;
  const auto read = is_large ? streamed : in_memory;
  Result<SummarySubject> subject = read(console, wish, iterations);
  if (!subject) {
    return subject;
  }
  const std::optional<Rank> rank = wish.options.rank;
  if (rank && subject->trace.stream_of(*rank) == nullptr) {
    return failure(fmt::format("--rank {}: the trace has no calls of that rank, its highest is {}",
                               rank->value, subject->trace.ranks() - 1));
  }
  if (iterations.lacks_wanted()) {
    return iterations.none_in(wish.iterations);
  }
  subject->options = wish.options;
  return subject;
}

}  // namespace commlens
