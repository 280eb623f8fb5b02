#include "commlens/trace/call_source.hpp"

#include <algorithm>
#include <list>
#include <optional>
#include <string>
#include <utility>

#include "commlens/trace/compute_file.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/open_stream.hpp"
#include "commlens/trace/stream_file.hpp"

namespace commlens {

CallSource call_source(const Trace& trace) {
  CallSource source{trace, {}, {}, {}, {}};
  for (const RankStream& stream : trace.streams) {
    source.has_times.push_back(stream.times.size() == stream.events.size());
    source.has_compute.push_back(!stream.compute.empty());
  }
  source.calls = [&trace](StreamCursor& cursor, std::size_t most) -> CallSpan {
    const RankStream& stream = trace.streams[cursor.stream];
    const std::size_t first =
        std::exchange(cursor.next, cursor.next + std::min(most, stream.events.size() - cursor.next));
    const std::size_t count = cursor.next - first;
    const bool has_times = stream.times.size() == stream.events.size();
    return CallSpan{std::span(stream.events).subspan(first, count),
                    has_times ? std::span(stream.times).subspan(first, count) : std::span<const Times>()};
  };
  source.compute = [&trace](StreamCursor& cursor) -> std::span<const ComputeInterval> {
    const std::vector<ComputeInterval>& compute = trace.streams[cursor.stream].compute;
    return std::span(compute).subspan(std::exchange(cursor.next, compute.size()));
  };
  return source;
}

namespace {

/// The few of many that were used last.
class LatelyUsed {
 public:
  explicit LatelyUsed(std::size_t most) : most_(most) {}

  /// Notes that `row` is used; returns the one that is used no more, if there is one too many.
  std::optional<std::size_t> use(std::size_t row) {
    if (row >= places_.size()) {
      places_.resize(row + 1, rows_.end());
    }
    if (places_[row] != rows_.end()) {
      rows_.splice(rows_.end(), rows_, places_[row]);
      return std::nullopt;
    }
    places_[row] = rows_.insert(rows_.end(), row);
    if (rows_.size() <= most_) {
      return std::nullopt;
    }
    const std::size_t oldest = rows_.front();
    rows_.pop_front();
    places_[oldest] = rows_.end();
    return oldest;
  }

 private:
  std::size_t most_;
  std::list<std::size_t> rows_;                           // the one used last at the end
  std::vector<std::list<std::size_t>::iterator> places_;  // per row; the end where it is not in use
};

}  // namespace

struct DirectoryCalls::State {
  explicit State(std::size_t most_mapped) : mapped(most_mapped) {}

  /// A stream that has its files.
  struct Stream {
    std::optional<OpenStream> calls;
    std::optional<ComputeFile> compute;
    bool is_compute_ascending = true;
  };

  const std::vector<OpId>& ops_of(std::size_t row) const {
    return manifest.streams[row].tables.empty() ? manifest.ops : streams[row].calls->ops;
  }
  /// The stream in row `row`, its files mapped until others are asked for.
  const Stream& mapped_stream(std::size_t row);
  CallSpan calls(StreamCursor& cursor, std::size_t most);
  std::span<const ComputeInterval> compute(StreamCursor& cursor);

  Manifest manifest;
  std::vector<Stream> streams;
  LatelyUsed mapped;
  StreamFile::Calls some;  // given last
  std::vector<ComputeInterval> stretches;
};

namespace {

constexpr std::size_t k_stretches_at_a_time = 1024;

/// The result of reading a file of compute intervals once.
struct ComputeSurvey {
  bool is_ascending = true;  // by start
  std::size_t lost = 0;      // records that give no interval
};

ComputeSurvey survey_of(const ComputeFile& file, const TimeShift& shift) {
  ComputeSurvey survey;
  std::vector<ComputeInterval> stretches;
  std::optional<ComputeInterval> last;
  for (std::size_t row = 0; row < file.size(); row += k_stretches_at_a_time) {
    stretches.clear();
    survey.lost += file.read(row, k_stretches_at_a_time, shift, stretches);
    if (stretches.empty()) {
      continue;
    }
    survey.is_ascending = survey.is_ascending && std::is_sorted(stretches.begin(), stretches.end()) &&
                          (!last || *last <= stretches.front());
    last = stretches.back();
  }
  file.forget();
  return survey;
}

}  // namespace

const DirectoryCalls::State::Stream& DirectoryCalls::State::mapped_stream(std::size_t row) {
  if (const std::optional<std::size_t> unused = mapped.use(row)) {
    Stream& stream = streams[*unused];
    if (stream.calls) {
      stream.calls->file.unmap();
    }
    if (stream.compute) {
      stream.compute->unmap();
    }
  }
  Stream& stream = streams[row];
  if (stream.calls) {
    stream.calls->file.map_again();
  }
  if (stream.compute) {
    stream.compute->map_again();
  }
  return stream;
}

CallSpan DirectoryCalls::State::calls(StreamCursor& cursor, std::size_t most) {
  const std::optional<OpenStream>& stream = mapped_stream(cursor.stream).calls;
  some.events.clear();
  some.times.clear();
  const std::size_t records = stream ? static_cast<std::size_t>(stream->survey.records) : 0;
  while (some.events.empty() && cursor.next < records) {  // records of calls that never finished give no call
    stream->file.read({cursor.next, most}, ops_of(cursor.stream), stream->survey, stream->shift, some);
    cursor.next += most;
  }
  return {some.events, some.times};
}

std::span<const ComputeInterval> DirectoryCalls::State::compute(StreamCursor& cursor) {
  const Stream& stream = mapped_stream(cursor.stream);
  stretches.clear();
  const TimeShift shift = stream.calls ? stream.calls->shift : TimeShift();
  while (stream.compute && stretches.empty() &&
         cursor.next < stream.compute->size()) {  // lost ones give none
    const std::size_t count = stream.is_compute_ascending ? k_stretches_at_a_time : stream.compute->size();
    stream.compute->read(cursor.next, count, shift, stretches);
    cursor.next += count;
  }
  if (!stream.is_compute_ascending) {
    std::sort(stretches.begin(), stretches.end());
  }
  return stretches;
}

DirectoryCalls::DirectoryCalls(std::unique_ptr<State> state) : state_(std::move(state)) {}
DirectoryCalls::DirectoryCalls(DirectoryCalls&&) noexcept = default;
DirectoryCalls& DirectoryCalls::operator=(DirectoryCalls&&) noexcept = default;
DirectoryCalls::~DirectoryCalls() = default;

Result<DirectoryCalls> DirectoryCalls::open(const std::filesystem::path& directory, std::size_t most_mapped) {
  Result<Manifest> manifest = manifest_of(directory);
  if (!manifest) {
    return tl::unexpected(manifest.error());
  }
  auto state = std::make_unique<State>(most_mapped);
  state->manifest = std::move(*manifest);
  Trace& tables = state->manifest.tables;
  RankClocks clocks;
  for (std::size_t row = 0; row < state->manifest.streams.size(); ++row) {
    const StreamEntry& entry = state->manifest.streams[row];
    tables.streams.push_back({entry.ranks, {}, {}, {}});
    Result<std::optional<OpenStream>> opened = open_stream(directory, row, state->manifest, clocks);
    if (!opened) {
      return tl::unexpected(opened.error());
    }
    State::Stream stream{std::move(*opened), std::nullopt};
    if (stream.calls) {
      Result<std::optional<ComputeFile>> compute = ComputeFile::open(directory, entry, tables.provenance);
      if (!compute) {
        return tl::unexpected(compute.error());
      }
      stream.compute = std::move(*compute);
    }
    if (stream.compute) {
      const ComputeSurvey survey = survey_of(*stream.compute, stream.calls->shift);
      stream.is_compute_ascending = survey.is_ascending;
      if (survey.lost > 0) {
        tables.provenance.skip(std::string(k_skipped_compute), static_cast<std::int64_t>(survey.lost));
      }
    }
    state->streams.push_back(std::move(stream));
    state->mapped_stream(row);
  }
  return DirectoryCalls(std::move(state));
}

const Trace& DirectoryCalls::tables() const { return state_->manifest.tables; }

void DirectoryCalls::visit(const CallSink& sink) {
  for (std::size_t row = 0; row < state_->streams.size(); ++row) {
    const std::optional<OpenStream>& stream = state_->mapped_stream(row).calls;
    if (!stream || stream->survey.records == 0) {
      sink({.tables = tables(), .stream = row, .events = {}, .times = {}});
    }
    if (!stream) {
      continue;
    }
    stream->file.visit(state_->ops_of(row), stream->survey, stream->shift, state_->manifest.tables.provenance,
                       [&](std::span<const CommEvent> events, std::span<const Times> times) {
                         sink({.tables = tables(), .stream = row, .events = events, .times = times});
                       });
  }
}

CallSource DirectoryCalls::source() const {
  State* const state = state_.get();
  CallSource source{tables(), {}, {}, {}, {}};
  for (const State::Stream& stream : state->streams) {
    source.has_times.push_back(!stream.calls || stream.calls->survey.has_times());
    source.has_compute.push_back(stream.compute && stream.compute->size() > 0);
  }
  source.calls = [state](StreamCursor& cursor, std::size_t most) { return state->calls(cursor, most); };
  source.compute = [state](StreamCursor& cursor) { return state->compute(cursor); };
  return source;
}

Trace DirectoryCalls::take_tables() && { return std::move(state_->manifest.tables); }

Result<Trace> visit_calls(const std::filesystem::path& directory, const CallSink& sink) {
  Result<DirectoryCalls> calls = DirectoryCalls::open(directory);
  if (!calls) {
    return tl::unexpected(calls.error());
  }
  calls->visit(sink);
  return std::move(*calls).take_tables();
}

}  // namespace commlens
