#include "commlens/app/summarise.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "commlens/app/call_sites.hpp"
#include "commlens/app/trace_source.hpp"
#include "commlens/summary/stragglers.hpp"
#include "commlens/summary/time_tally.hpp"
#include "commlens/trace/call_blocks.hpp"
#include "commlens/trace/call_source.hpp"
#include "commlens/trace/stream_layout.hpp"
#include "commlens/trace/trace_file.hpp"

namespace commlens {
namespace {

/// An upper bound of the calls in a native directory.
std::int64_t most_calls_of(const std::filesystem::path& directory) {
  std::uintmax_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::uintmax_t size = entry.path().extension() == ".bin" ? entry.file_size(error) : 0;
    bytes += error ? 0 : size;
  }
  return static_cast<std::int64_t>(bytes / sizeof(StreamRecord));
}

/// The iterations of all calls of a trace, of all ranks.
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

  tl::unexpected<Error> none_in(const std::string& wanted) const {
    return first_ > last_
               ? failure(fmt::format("--iteration {}: the trace does not say which iteration a call is of",
                                     wanted))
               : failure(
                     fmt::format("--iteration {}: the trace has iterations {} to {}", wanted, first_, last_));
  }

 private:
  std::optional<IterationRange> wanted_;
  bool has_wanted_ = false;
  Iteration latest_ = k_unknown_iteration;
  Iteration first_ = INT32_MAX;
  Iteration last_ = INT32_MIN;
};

/// The timing of a large directory, from its totals only.
TimingTotals timing_of(const CallSource& source, const SummaryRequest& request, TimeTally& tally,
                       const IterationFacts& facts) {
  TimingTotals timing{tally.finish(k_most_calls_in_memory), std::nullopt};
  if (!request.with_stragglers) {
    return timing;
  }
  timing.waits = stragglers(source, facts, {.iterations = request.options.iterations});
  select_rank(*timing.waits, {request.options.iterations, request.options.rank});
  return timing;
}

Result<SummarySubject> streamed(const SummaryRequest& request, Iterations& iterations) {
  const Task task(request.events, fmt::format("reading {}", request.trace), 0);
  Result<DirectoryCalls> calls = DirectoryCalls::open(request.trace);
  if (!calls) {
    return tl::unexpected(calls.error());
  }
  const CallSource source = calls->source();
  SummaryBuilder builder(request.options);
  IterationSurvey survey;
  TimeTally tally(source, {request.options.iterations, request.options.rank});
  calls->visit([&](const CallBlock& block) {
    builder.add(block);
    iterations.add(block);
    if (request.with_timing) {
      survey.add(block);
      tally.add(block);
    }
  });
  SummarySubject subject;
  subject.has_calls = false;
  subject.summary = builder.finish(calls->tables());
  add_computing(source, request.options, subject.summary);
  const bool has_times = subject.summary.time || subject.summary.computing_ranks > 0;
  if (request.with_timing && has_times && !subject.summary.coverage.averaged_times) {
    subject.timing = timing_of(source, request, tally, survey.facts());
  }
  subject.trace = std::move(*calls).take_tables();
  return subject;
}

Result<SummarySubject> in_memory(const SummaryRequest& request, Iterations& iterations) {
  Result<Trace> trace = open_trace(request.events, request.trace);
  if (!trace) {
    return tl::unexpected(trace.error());
  }
  SummarySubject subject{.trace = std::move(*trace), .summary = {}, .options = {}, .timing = {}};
  subject.summary = summarise(subject.trace, request.options);
  visit_calls(subject.trace, [&](const CallBlock& block) { iterations.add(block); });
  return subject;
}

bool knows_sites(const Trace& tables) {
  return std::any_of(tables.ops().begin(), tables.ops().end(),
                     [](const CommOp& op) { return op.site != NameId{}; });
}

}  // namespace

Result<SummarySubject> summarise(const SummaryRequest& request) {
  const std::optional<IterationRange>& range = request.options.iterations;
  Iterations iterations(range);
  const bool is_large = is_trace(request.trace) && most_calls_of(request.trace) > request.most_calls;
  const auto read = is_large ? streamed : in_memory;
  Result<SummarySubject> subject = read(request, iterations);
  if (!subject) {
    return subject;
  }
  const std::optional<Rank> rank = request.options.rank;
  if (rank && subject->trace.stream_of(*rank) == nullptr) {
    return failure(fmt::format("--rank {}: the trace has no calls of that rank, its highest is {}",
                               rank->value, subject->trace.ranks() - 1));
  }
  if (iterations.lacks_wanted()) {
    return iterations.none_in(range_text(*range));
  }
  if (request.options.ranks_per_node > 0) {
    if (const Result<void> known = check_groups_are_known(subject->trace); !known) {
      return tl::unexpected(known.error());
    }
  }
  subject->options = request.options;
  if (request.options.by_site) {
    if (!knows_sites(subject->trace)) {
      return failure(
          fmt::format("--call-sites: {} does not say where calls were made; record it with "
                      "commlens record --call-sites",
                      shown_name(request.trace)));
    }
    subject->sites = shown_call_sites(subject->trace, request.trace, request.events);
  }
  return subject;
}

}  // namespace commlens
