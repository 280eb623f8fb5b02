#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/comm/event.hpp"
#include "commlens/comm/group.hpp"

namespace commlens {

/// What a recording is of, known before it starts.
struct RecordingInfo {
  std::string producer;     // "commlens 0.1.0"
  std::string description;  // model and layout
  std::string framework;    // "commlens"
  std::int64_t ranks = 1;
  bool compute = false;           // recorders are opened with RecorderParts::calls_and_compute
  std::optional<bool> progress;   // Provenance::progress
  bool is_replay = false;         // Source::replayed
  std::int64_t ring_records = 0;  // as RecorderOptions says
};

/// Makes the trace directory and its manifest; one process of the job calls it before any Recorder of that
/// job opens. Replaces a trace that is there. Throws SystemError when the directory cannot be written or
/// holds anything else than a trace.
void create_recording(const std::filesystem::path& directory, const RecordingInfo& info);
/// The same for jobs that may run beside each other and know nothing of each other: `directory` when it is
/// absent or empty, else the first of `directory`-2, `directory`-3, … that is. What is there is left alone,
/// and no two processes get the same. Returns which. Throws SystemError also when one of them holds anything
/// else than a trace.
std::filesystem::path claim_recording(const std::filesystem::path& directory, const RecordingInfo& info);
/// The manifest alone, into a directory that is there: for jobs whose processes find each other there.
void write_recording_manifest(const std::filesystem::path& directory, const RecordingInfo& info);

/// After all Recorders of the job are closed (or have died): writes event counts, drops and the recorder's
/// own cost into the manifest. A directory without this step is readable all the same, so a disk that is full
/// by now is no error. Files of ranks that were killed are cut after their last record; of ranks that some
/// process still records nothing is written. `note`, if any, is added to the description. Throws SystemError
/// when there is no manifest.
void finish_recording(const std::filesystem::path& directory, std::string_view note = {});

/// What identifies a call besides its times. `tag` points to text that lives as long as the program.
struct RecordedCall {
  CommKind kind = CommKind::other;
  DType dtype = DType::uint8;
  GroupId group{};
  Elements input;
  Elements output;
  std::optional<GroupRank> root;
  Reduction reduction = Reduction::unknown;
  Algorithm algorithm = Algorithm::unknown;
  Protocol protocol = Protocol::unknown;
  std::optional<bool> blocking;
  std::uint16_t site = 0;  // where it was called: Recorder::name(), in so few bits that a call stays as small
  std::string_view tag;
  NameId name{};  // what the program called it: Recorder::name()
  NameId note{};  // what the record lacks: Recorder::name()
};

/// How a call ended that moved nothing.
enum class CallEnd : std::uint8_t { failed, cancelled };

/// This rank's clock against that of rank 0 of the job at one moment.
struct ClockPoint {
  std::chrono::nanoseconds at{};      // on this rank's clock
  std::chrono::nanoseconds offset{};  // to add to it for rank 0's
  std::chrono::nanoseconds error{};   // how far `offset` may be off, either way
};

/// What a recorder writes.
enum class RecorderParts : std::uint8_t { calls, calls_and_compute };

struct RecorderOptions {
  RecorderParts parts = RecorderParts::calls;
  /// The file keeps the last so many calls and does not grow; 0: it keeps all and grows. Compute intervals
  /// are all kept.
  std::int64_t ring_records = 0;
};

/// Appends the calls of one rank to its file of a recording (docs/formats/trace.md). One thread uses it; of a
/// file that grows, others may finish or fail calls meanwhile, each call by one of them.
/// begin and finish neither allocate, lock nor enter the kernel, except when begin sees a description for the
/// first time; they never throw. When the disk is full, recording stops for good and drops are counted; every
/// call after close() is dropped too. When its tables are full (k_most_op_rows, rank_tables.hpp) or memory is
/// out, calls that were not seen before are dropped and counted by these reasons.
class Recorder {
 public:
  /// Which call of the file a begun call is. Of a ring it may be overwritten before it ends; its end is then
  /// noted where calls under way are kept.
  using Slot = std::uint64_t;
  static constexpr Slot k_dropped = UINT64_MAX;

  /// Opens the files of `rank`. Throws SystemError when they cannot be made.
  Recorder(const std::filesystem::path& directory, Rank rank, const RecorderOptions& options = {});
  ~Recorder();  // closes
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The id of a group in this rank's file; the same for the same members, axis and communicator.
  /// Communicators of the same members have numbers that all of them give; without, calls of several cannot
  /// be distinguished.
  GroupId group(const std::vector<Rank>& members, Axis axis, CommunicatorId communicator = k_no_communicator);
  /// The id of a call's name, site or note in this rank's file; the same for the same text. At most 65,535
  /// names.
  NameId name(std::string_view text);

  /// Later calls carry these.
  void set_iteration(Iteration iteration) noexcept;
  void set_phase(Phase phase, std::int32_t micro_batch = k_no_micro_batch) noexcept;
  Phase phase() const noexcept;
  std::int32_t micro_batch() const noexcept;

  /// Calls may be overwritten.
  bool is_ring() const noexcept;

  /// A call is issued now; it is in the file at once, without an end.
  Slot begin(const RecordedCall& call) noexcept;
  /// A call under way that was issued at `issued` began elsewhere, on a GPU for instance, at `started`: the
  /// file says so until its end is known. Nothing where it has ended.
  void start(Slot slot, std::chrono::nanoseconds issued, std::chrono::nanoseconds started) noexcept;
  /// The call is complete now.
  void finish(Slot slot) noexcept;
  /// The same for a caller that has just read Clock::of_process() (nanoseconds).
  Slot begin(const RecordedCall& call, std::int64_t now_ns) noexcept;
  void finish(Slot slot, std::int64_t now_ns) noexcept;
  /// The call is complete now and turned out to be `actual`: a receive whose source and size are known at its
  /// end.
  void finish(Slot slot, const RecordedCall& actual, std::int64_t now_ns) noexcept;
  /// The same for a call whose three times are known now.
  void finish(Slot slot, const Times& times) noexcept;
  /// The same for a call that ran elsewhere, on a GPU for instance, and whose times are known now. May be
  /// called again when more is known.
  void finish(Slot slot, const RecordedCall& actual, const Times& times) noexcept;
  /// The call ended without effect; readers count it and leave it out.
  void fail(Slot slot, CallEnd end) noexcept;

  /// Calls that cannot be described are counted by reason; the counts are written by close().
  void skip(const std::string& reason, std::int64_t calls = 1);
  /// How the clocks of the job stand to each other. Once, or twice with time between to correct their drift.
  void add_clock_point(const ClockPoint& point);
  /// The rank makes no more calls: it has begun to end. That may take long, where other ranks must take part.
  void announce_end();
  /// The rank may make no calls for so long, up to k_longest_pause (a checkpoint): no hang. 0 or less, or no
  /// number: it is through.
  void announce_pause(double for_s);
  /// What a caller does for each call around begin and finish, to be added to the recorder's own cost; less
  /// that when the caller has measured both.
  void add_cost(std::chrono::nanoseconds per_call) noexcept;
  /// Of begin and finish together, what the caller adds included; median, measured when it was opened.
  std::chrono::nanoseconds cost_per_call() const noexcept;

  /// The rank's thread computes from now on, until stop_computing(): what lies between is one interval of
  /// computing. Intervals shorter than k_shortest_compute are skipped (they lie between the parts of one
  /// call, and would double the records); set_iteration() divides one. As cheap as begin; nothing for a
  /// recorder of calls alone. Threads that compute elsewhere are not seen.
  void start_computing() noexcept;
  void start_computing(std::int64_t now_ns) noexcept;
  void stop_computing(std::int64_t now_ns) noexcept;
  static constexpr std::chrono::nanoseconds k_shortest_compute{1000};

  std::int64_t dropped() const noexcept;
  /// Trims the file, writes the drops and the cost. Idempotent; the destructor does it too.
  void close() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace commlens
