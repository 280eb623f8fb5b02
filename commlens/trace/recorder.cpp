#include "commlens/trace/recorder.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <new>
#include <span>

#include <fmt/format.h>

#include "commlens/trace/clock.hpp"
#include "commlens/trace/compute_recorder.hpp"
#include "commlens/trace/growing_file.hpp"
#include "commlens/trace/op_cache.hpp"
#include "commlens/trace/op_lanes.hpp"
#include "commlens/trace/rank_tables_file.hpp"
#include "commlens/trace/recorder_file.hpp"
#include "commlens/trace/ring_memory.hpp"
#include "commlens/trace/stream_layout.hpp"

namespace commlens {
namespace {

OpCache::Key key_of(const RecordedCall& call, Phase phase) {
  const std::int64_t root = call.root ? call.root->value : -1;
  return {static_cast<std::uint64_t>(call.input.value),
          static_cast<std::uint64_t>(call.output.value),
          reinterpret_cast<std::uint64_t>(call.tag.data()),
          static_cast<std::uint64_t>(root) << 32 | static_cast<std::uint64_t>(call.group),
          static_cast<std::uint64_t>(call.kind) | static_cast<std::uint64_t>(call.dtype) << 8 |
              static_cast<std::uint64_t>(phase) << 16 | static_cast<std::uint64_t>(call.name) << 24 |
              static_cast<std::uint64_t>(call.tag.size()) << 40,
          static_cast<std::uint64_t>(call.reduction) | static_cast<std::uint64_t>(call.algorithm) << 8 |
              static_cast<std::uint64_t>(call.protocol) << 16 |
              static_cast<std::uint64_t>(call.blocking ? 1 + int{*call.blocking} : 0) << 24 |
              static_cast<std::uint64_t>(call.note) << 32 | static_cast<std::uint64_t>(call.site) << 48};
}

RankClock rank_clock(const Clock& clock) {
  const Clock::Calibration& calibration = clock.calibration();
  return {.source = std::string(clock.name()),
          .boot = boot_id(),
          .frequency_hz = calibration.frequency_hz,
          .rate_error_ppb = calibration.rate_error_ppb,
          .wall_offset = std::chrono::nanoseconds(calibration.wall_offset_ns)};
}

/// Memory that holds headers and records, in the file or, to measure the cost, elsewhere.
class Records {
 public:
  Records() = default;
  explicit Records(std::byte* bytes)
      : header_(reinterpret_cast<StreamHeader*>(bytes)),
        records_(reinterpret_cast<StreamRecord*>(bytes + header_->header_bytes)),
        before_(header_->header_bytes) {
    if (header_->version == k_ring_version) {
      ring_ = RingMemory(bytes);
      is_ring_ = true;
      size_ = reinterpret_cast<RingHeader*>(bytes + sizeof(StreamHeader))->capacity;
      room_ = UINT64_MAX;
    }
  }

  bool is_open() const { return records_ != nullptr; }
  bool is_ring() const { return is_ring_; }
  RingMemory& ring() { return ring_; }
  std::uint64_t count() const { return count_; }
  bool has_room() const { return count_ < room_; }
  /// In bytes. That of a ring does not end.
  void set_capacity(std::uint64_t bytes) {
    if (!is_ring_) {
      room_ = bytes < before_ ? 0 : (bytes - before_) / sizeof(StreamRecord);
    }
  }
  /// Bytes up to the end of the last record, of a ring as if it had never gone round.
  std::uint64_t used() const { return before_ + count_ * sizeof(StreamRecord); }

  /// A reader, and the file of a killed process, has the record before it is counted.
  std::uint64_t add(const StreamRecord& record) {
    StreamRecord& target = records_[place_];
    if (is_ring_) {
      ring_.begin(count_, count_ >= size_ ? &target : nullptr);
    }
    target = record;
    std::atomic_ref(header_->records).store(++count_, std::memory_order_release);
    place_ = place_ + 1 == size_ ? 0 : place_ + 1;
    return count_ - 1;
  }
  /// The record of a call is another's by now.
  bool is_overwritten(std::uint64_t slot) const { return is_ring_ && count_ - slot > size_; }
  void finish(std::uint64_t slot, std::int64_t now_ns) {
    if (is_overwritten(slot)) {
      ring_.end(slot);
      return;
    }
    StreamRecord& record = at(slot);
    std::atomic_ref(record.duration_ns)
        .store(std::max<std::int64_t>(now_ns - record.started_ns, 0), std::memory_order_release);
  }
  /// A process that is killed meanwhile leaves the call unfinished.
  void finish(std::uint64_t slot, const Times& times) {
    fail(slot, k_unfinished);
    if (is_overwritten(slot)) {
      ring_.end(slot);
      return;
    }
    StreamRecord& record = at(slot);
    const std::int64_t lead = (times.started - times.issued).count();
    std::atomic_ref(record.started_ns).store(times.started.count(), std::memory_order_release);
    std::atomic_ref(record.issue_lead_ns)
        .store(static_cast<std::uint32_t>(std::clamp<std::int64_t>(lead, 0, UINT32_MAX)),
               std::memory_order_release);
    finish(slot, times.finished.count());
  }
  void start(std::uint64_t slot, std::int64_t issued_ns, std::int64_t started_ns) {
    if (is_overwritten(slot) || at(slot).duration_ns != k_unfinished) {
      return;
    }
    StreamRecord& record = at(slot);
    const std::int64_t lead = std::clamp<std::int64_t>(started_ns - issued_ns, 1, UINT32_MAX);
    std::atomic_ref(record.started_ns).store(std::max(started_ns, issued_ns + 1), std::memory_order_release);
    std::atomic_ref(record.issue_lead_ns).store(static_cast<std::uint32_t>(lead), std::memory_order_release);
  }
  void set_op(std::uint64_t slot, std::uint32_t number) {
    if (is_overwritten(slot)) {
      ring_.end_as(slot, number);
      return;
    }
    fail(slot, k_unfinished);  // until it is seen as a whole
    std::atomic_ref(at(slot).op_number).store(number, std::memory_order_release);
  }
  void fail(std::uint64_t slot, std::int64_t mark) {
    if (!is_overwritten(slot)) {
      std::atomic_ref(at(slot).duration_ns).store(mark, std::memory_order_release);
    } else if (mark == k_cancelled) {
      ring_.cancel(slot);
    } else if (mark != k_unfinished) {
      ring_.end(slot);
    }
  }
  void store_dropped(std::uint64_t full, std::uint64_t late) {
    std::atomic_ref(header_->dropped_full).store(full, std::memory_order_relaxed);
    std::atomic_ref(header_->dropped_late).store(late, std::memory_order_relaxed);
  }
  void close() {
    records_ = nullptr;
    room_ = 0;
  }

 private:
  /// Of a call that is not overwritten. Of a file that grows nothing that add() changes is looked at.
  StreamRecord& at(std::uint64_t slot) const {
    if (!is_ring_) {
      return records_[slot];
    }
    const std::uint64_t back = count_ - slot;
    return records_[place_ >= back ? place_ - back : place_ + size_ - back];
  }

  StreamHeader* header_ = nullptr;
  StreamRecord* records_ = nullptr;
  std::uint64_t before_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t place_ = 0;  // of the next record: count_ modulo size_
  std::uint64_t size_ = UINT64_MAX;
  std::uint64_t room_ = 0;
  bool is_ring_ = false;
  RingMemory ring_;
};

}  // namespace

struct Recorder::State {
  State(const std::filesystem::path& directory, Rank rank, const RecorderOptions& options);

  Slot begin(Records& target, const RecordedCall& call, std::int64_t now_ns) noexcept;
  bool set_call(Slot slot, const RecordedCall& actual) noexcept;
  bool make_room(Records& target) noexcept;
  enum class Refusal : std::uint8_t { none, tables_full, no_memory };
  std::uint32_t new_number(const RecordedCall& call, const OpCache::Key& key) noexcept;
  Slot drop() noexcept;
  void count_refused();
  std::chrono::nanoseconds measured_cost();

  Clock clock;
  Iteration iteration = k_init_iteration;
  std::int32_t micro_batch = k_no_micro_batch;
  Phase phase = Phase::init;
  OpCache cache;  // what a record has: a row + 1
  RankTablesFile tables;
  GrowingFile file;
  OpLanes lanes;  // of a ring
  std::uint32_t rows_with_lanes = 0;
  Records records;
  std::unique_ptr<ComputeRecorder> compute;  // null: calls alone
  bool is_stopped = false;                   // the disk was full once
  std::uint64_t dropped_full = 0;
  std::uint64_t dropped_late = 0;
  Refusal refusal = Refusal::none;  // of the last new_number
  std::uint64_t dropped_tables_full = 0;
  std::uint64_t dropped_no_memory = 0;
  std::chrono::nanoseconds cost{};
  std::map<std::string, std::int64_t> skipped;
};

Recorder::State::State(const std::filesystem::path& directory, Rank rank, const RecorderOptions& options)
    : clock(Clock::of_process()),
      tables(directory / fmt::format("rank-{}.jsonl", rank.value), rank, rank_clock(clock), own_process()),
      file(recorder_file(directory / fmt::format("rank-{}.bin", rank.value), rank, options.ring_records)),
      records(file.bytes()) {
  records.set_capacity(file.capacity());
  if (options.parts == RecorderParts::calls_and_compute) {
    compute = std::make_unique<ComputeRecorder>(directory / fmt::format("rank-{}.compute.bin", rank.value),
                                                rank, k_shortest_compute);
  }
  cost = measured_cost();
}

Recorder::Slot Recorder::State::begin(Records& target, const RecordedCall& call,
                                      std::int64_t now_ns) noexcept {
  const OpCache::Key key = key_of(call, phase);
  std::uint32_t number = cache.find(key);
  if (!target.has_room() && !make_room(target)) {
    return drop();
  }
  if (number == OpCache::k_absent && !is_stopped) {
    number = new_number(call, key);
  }
  if (is_stopped) {
    return drop();
  }
  if (number == OpCache::k_absent) {
    ++(refusal == Refusal::tables_full ? dropped_tables_full : dropped_no_memory);
    return k_dropped;
  }
  return target.add({.op_number = number,
                     .iteration = iteration,
                     .started_ns = now_ns,
                     .duration_ns = k_unfinished,
                     .issue_lead_ns = 0,
                     .micro_batch = micro_batch});
}

bool Recorder::State::make_room(Records& target) noexcept {
  const bool is_full = file.is_full();  // before the capacity: it grows no more once this is set
  target.set_capacity(file.capacity());
  is_stopped = is_stopped || (is_full && !target.has_room());
  return target.has_room();
}

/// Writes the line of a description; the record that names it, by its row + 1, must come after it. When it
/// cannot, `is_stopped` or `refusal` says why.
std::uint32_t Recorder::State::new_number(const RecordedCall& call, const OpCache::Key& key) noexcept {
  try {
    CommOp op;
    op.kind = call.kind;
    op.dtype = call.dtype;
    op.phase = phase;
    op.group = call.group;
    op.input = call.input;
    op.output = call.output;
    op.root = call.root;
    op.reduction = call.reduction;
    op.algorithm = call.algorithm;
    op.protocol = call.protocol;
    op.blocking = call.blocking;
    op.tag = tables.tag(call.tag);
    op.name = call.name;
    op.site = NameId{call.site};
    op.note = call.note;
    const bool has_tag = call.tag.empty() || op.tag != TagId{};
    const std::optional<std::uint32_t> row = has_tag ? tables.op(op) : std::nullopt;
    is_stopped = is_stopped || tables.is_broken();
    refusal = row ? Refusal::none : Refusal::tables_full;
    if (!row) {
      return OpCache::k_absent;
    }
    const std::uint32_t number = *row + 1;
    if (records.is_ring() && *row == rows_with_lanes) {
      records.ring().add_row(
          lanes.lane_of(op.kind, static_cast<std::uint32_t>(op.group), static_cast<std::uint32_t>(op.name)));
      ++rows_with_lanes;
    }
    cache.insert(key, number);
    return number;
  } catch (const std::bad_alloc&) {
    refusal = Refusal::no_memory;
    return OpCache::k_absent;
  }
}

Recorder::Slot Recorder::State::drop() noexcept {
  ++(is_stopped ? dropped_full : dropped_late);
  if (records.is_open()) {
    records.store_dropped(dropped_full, dropped_late);
  }
  return k_dropped;
}

/// The median of what a call that was seen before costs, on memory that is in the cache.
std::chrono::nanoseconds Recorder::State::measured_cost() {
  constexpr std::size_t calls = 128;
  constexpr std::size_t batches = 41;
  std::vector<std::uint64_t> memory((ring_header_bytes(k_lapped_rows, 0) + calls * sizeof(StreamRecord)) / 8);
  const auto bytes = std::as_writable_bytes(std::span(memory));
  const StreamHeader header;
  const RingHead ring = ring_head(header, calls, 0);
  std::memcpy(bytes.data(), records.is_ring() ? static_cast<const void*>(&ring) : &header,
              records.is_ring() ? sizeof ring : sizeof header);
  const RecordedCall call{.group = GroupId{UINT32_MAX}, .tag = {}};  // no call of the program has this group
  cache.insert(key_of(call, phase), 0);
  std::array<std::int64_t, batches> costs = {};
  Records scratch(bytes.data());
  for (std::int64_t& batch : costs) {
    if (!scratch.is_ring()) {
      scratch = Records(bytes.data());
      scratch.set_capacity(bytes.size());
    }
    const std::int64_t start = clock.now_ns();
    for (std::size_t done = 0; done < calls; ++done) {
      scratch.finish(begin(scratch, call, clock.now_ns()), clock.now_ns());
    }
    batch = clock.now_ns() - start;
  }
  std::nth_element(costs.begin(), costs.begin() + batches / 2, costs.end());
  return std::chrono::nanoseconds((costs[batches / 2] + std::int64_t{calls} - 1) / std::int64_t{calls});
}

Recorder::Recorder(const std::filesystem::path& directory, Rank rank, const RecorderOptions& options)
    : state_(std::make_unique<State>(directory, rank, options)) {}

Recorder::~Recorder() { close(); }

GroupId Recorder::group(const std::vector<Rank>& members, Axis axis, CommunicatorId communicator) {
  const GroupId id = state_->tables.group(members, axis, communicator);
  state_->is_stopped = state_->is_stopped || state_->tables.is_broken();
  return id;
}

NameId Recorder::name(std::string_view text) {
  const NameId id = state_->tables.name(text);
  if (state_->records.is_ring()) {
    state_->lanes.set_name(static_cast<std::uint32_t>(id), text);
  }
  state_->is_stopped = state_->is_stopped || state_->tables.is_broken();
  return id;
}

void Recorder::skip(const std::string& reason, std::int64_t calls) { state_->skipped[reason] += calls; }

void Recorder::add_clock_point(const ClockPoint& point) { state_->tables.add_clock_point(point); }

void Recorder::announce_end() { state_->tables.announce_end(state_->clock.now_ns()); }

void Recorder::announce_pause(double for_s) { state_->tables.announce_pause(state_->clock.now_ns(), for_s); }

void Recorder::add_cost(std::chrono::nanoseconds per_call) noexcept { state_->cost += per_call; }

std::chrono::nanoseconds Recorder::cost_per_call() const noexcept { return state_->cost; }

void Recorder::set_iteration(Iteration iteration) noexcept {
  if (state_->compute && iteration != state_->iteration) {
    state_->compute->divide(state_->clock.now_ns(), state_->iteration);
  }
  state_->iteration = iteration;
}

void Recorder::start_computing() noexcept { start_computing(state_->clock.now_ns()); }

void Recorder::start_computing(std::int64_t now_ns) noexcept {
  if (state_->compute) {
    state_->compute->start(now_ns);
  }
}

void Recorder::stop_computing(std::int64_t now_ns) noexcept {
  if (state_->compute) {
    state_->compute->stop(now_ns, state_->iteration);
  }
}

void Recorder::set_phase(Phase phase, std::int32_t micro_batch) noexcept {
  state_->phase = phase;
  state_->micro_batch = micro_batch;
}

Phase Recorder::phase() const noexcept { return state_->phase; }

std::int32_t Recorder::micro_batch() const noexcept { return state_->micro_batch; }

Recorder::Slot Recorder::begin(const RecordedCall& call) noexcept {
  return begin(call, state_->clock.now_ns());
}

void Recorder::finish(Slot slot) noexcept { finish(slot, state_->clock.now_ns()); }

bool Recorder::is_ring() const noexcept { return state_->records.is_ring(); }

Recorder::Slot Recorder::begin(const RecordedCall& call, std::int64_t now_ns) noexcept {
  const Slot slot = state_->begin(state_->records, call, now_ns);
  if (slot != k_dropped) {
    state_->file.set_used(state_->records.used());
  }
  return slot;
}

void Recorder::start(Slot slot, std::chrono::nanoseconds issued, std::chrono::nanoseconds started) noexcept {
  if (slot != k_dropped && state_->records.is_open()) {
    state_->records.start(slot, issued.count(), started.count());
  }
}

void Recorder::finish(Slot slot, std::int64_t now_ns) noexcept {
  if (slot != k_dropped && state_->records.is_open()) {
    state_->records.finish(slot, now_ns);
  }
}

void Recorder::finish(Slot slot, const Times& times) noexcept {
  if (slot != k_dropped && state_->records.is_open()) {
    state_->records.finish(slot, times);
  }
}

/// False when what the call was cannot be written any more: it stays unfinished.
bool Recorder::State::set_call(Slot slot, const RecordedCall& actual) noexcept {
  if (slot == k_dropped || !records.is_open()) {
    return false;
  }
  const OpCache::Key key = key_of(actual, phase);
  std::uint32_t number = cache.find(key);
  if (number == OpCache::k_absent && !is_stopped) {
    number = new_number(actual, key);
    if (number == OpCache::k_absent && refusal == Refusal::tables_full) {
      records.fail(slot, k_no_row);
    }
  }
  if (number == OpCache::k_absent || tables.is_broken()) {
    return false;
  }
  records.set_op(slot, number);
  return true;
}

void Recorder::finish(Slot slot, const RecordedCall& actual, std::int64_t now_ns) noexcept {
  if (state_->set_call(slot, actual)) {
    state_->records.finish(slot, now_ns);
  }
}

void Recorder::finish(Slot slot, const RecordedCall& actual, const Times& times) noexcept {
  if (state_->set_call(slot, actual)) {
    state_->records.finish(slot, times);
  }
}

void Recorder::fail(Slot slot, CallEnd end) noexcept {
  if (slot != k_dropped && state_->records.is_open()) {
    state_->records.fail(slot, end == CallEnd::failed ? k_failed : k_cancelled);
  }
}

std::int64_t Recorder::dropped() const noexcept {
  return static_cast<std::int64_t>(state_->dropped_full + state_->dropped_late + state_->dropped_tables_full +
                                   state_->dropped_no_memory);
}

void Recorder::State::count_refused() {
  const auto count = [&](std::string_view reason, std::uint64_t calls) {
    if (calls > 0) {
      skipped[std::string(reason)] += static_cast<std::int64_t>(calls);
    }
  };
  count(k_skipped_tables_full, dropped_tables_full);
  count(k_skipped_no_memory, dropped_no_memory);
}

void Recorder::close() noexcept {
  State& state = *state_;
  if (!state.records.is_open()) {
    return;
  }
  state.records.close();
  state.is_stopped = true;
  if (state.compute) {
    state.compute->close();
  }
  state.file.close();
  state.count_refused();
  state.tables.close({.events = static_cast<std::int64_t>(state.records.count()),
                      .dropped = dropped(),
                      .cost_per_call = state.cost,
                      .clock_drift = state.clock.drift(),
                      .skipped = state.skipped});
}

}  // namespace commlens
