#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/live/follow_options.hpp"
#include "commlens/live/late_ranks.hpp"
#include "commlens/live/latest_iterations.hpp"
#include "commlens/live/live_progress.hpp"
#include "commlens/live/rolling_tally.hpp"
#include "commlens/live/step_tally.hpp"
#include "commlens/live/stream_follower.hpp"
#include "commlens/live/tables_follower.hpp"

namespace commlens {

/// What the ranks of a recording have in common while they are followed.
struct FollowedJob {
  std::filesystem::path path;
  PlainFile directory;
  Trace tables;
  std::vector<Rank> ranks;
  LiveProgress progress{tables};
  RollingTally tally;
  LateRanks late;
  RecordBlock block;
  bool keeps_iterations = false;
  bool keeps_times = false;
  explicit FollowedJob(Trace of_manifest, std::vector<Rank> of_streams)
      : tables(std::move(of_manifest)), ranks(std::move(of_streams)), late(tables, ranks) {}
  FollowedJob(const FollowedJob&) = delete;
  FollowedJob& operator=(const FollowedJob&) = delete;
};

/// Follows one rank: reads its new records, numbers its calls, and counts those that have completed.
class RankFollower {
 public:
  RankFollower(FollowedJob& job, std::size_t row, StreamEntry entry);

  /// Looks at `now`, by the follower's stopwatch, what has become of its files and of the calls under way.
  /// `is_final`: what is not there will not come. False: another recording is in the place of this one.
  bool look(std::chrono::nanoseconds now, bool is_final);
  /// Reads some of what was there at the last look; true: there is more. Ranks take turns, so that the calls
  /// of one do not have to be held for those of another.
  bool read_some(std::chrono::nanoseconds now);
  void set_entry(const StreamEntry& entry) { stream_.set_entry(entry); }

  bool is_there() const { return is_there_; }
  /// Why nothing is read of it: for good, or until the next look.
  const std::string& error() const { return error_.empty() ? not_yet_ : error_; }
  const RankTables& tables() const { return tables_.tables(); }
  /// What a verdict may ask of it, with what is not known of its calls.
  RankState state() const;
  /// Written, and not read yet.
  std::int64_t unread() const;
  std::int64_t read() const { return static_cast<std::int64_t>(stream_.cursor()); }
  /// Nothing will come any more, and all of it was read.
  bool is_done() const { return is_there_ && is_final_ && unread() == 0; }
  /// Calls that are not known, by reason (Provenance).
  std::map<std::string, std::int64_t> lost() const;
  /// Those that were lost while the rank ran, so that its calls are not comparable any more. What it says at
  /// its end that it does not record is no loss.
  std::int64_t lost_records() const;
  std::int64_t unfollowed() const { return unfollowed_; }

  const LiveNumbers& numbers() const { return numbers_; }
  const LiveSums& sums() const { return sums_; }
  LiveSums recent() const { return recent_.sum(job_->tally.second()); }
  Iteration iteration() const { return iteration_; }
  /// When it was last seen to have entered or left a call.
  std::chrono::nanoseconds moved() const { return moved_; }

  /// What is left of a pause that the rank has announced, by the stopwatch here since it was seen; of one
  /// that was there at the first look, and of this machine, by the rank's clock.
  std::chrono::nanoseconds pause_left(const PollTime& time);

  /// Its iterations, by the marks of the program.
  const StepTally& steps() const { return steps_; }
  /// The highest that it is through with: no call of it will come, or is under way. Below 0: none.
  Iteration whole_iteration() const;
  /// The calls of the latest ones, where the job keeps them.
  const LatestIterations& latest_iterations() const { return latest_iterations_; }

  /// A record whose page or row is not there for so long is passed: it was lost.
  static constexpr std::chrono::seconds k_patience{60};
  static constexpr std::chrono::seconds k_patience_for_strangers{3};

 private:
  /// What all calls of a row of the rank's tables have in common.
  struct Facts {
    bool is_known = false;
    bool has_strangers = false;
    OpId op{};
    LiveNumbers::Place place;
    std::uint32_t row = 0;    // of the tally
    std::uint32_t route = 0;  // of LateRanks
    Bytes message;
    Bytes wire;
  };

  static constexpr std::size_t k_blocks_a_turn = 16;
  void read_open(std::chrono::nanoseconds now);
  bool take(std::uint64_t slot, const StreamRecord& record, std::chrono::nanoseconds now);
  const Facts* facts_of(std::uint32_t number);
  Facts new_facts(OpId op);
  void enter(std::uint64_t slot, const StreamRecord& record, const Facts& facts,
             std::chrono::nanoseconds now);
  bool update(LiveNumbers::Open& call, const StreamRecord& record, std::chrono::nanoseconds now);
  void finish(const StreamRecord& record, const Facts& facts, std::int64_t number);
  void note_iteration(const StreamRecord& record);
  void lose(std::string_view reason, std::int64_t calls = 1);
  bool catch_up(std::chrono::nanoseconds now);
  std::map<std::string, std::int64_t> lost_so_far() const;
  void renumber(const RingRemains& remains, std::chrono::nanoseconds now);
  void end_unseen(const RingRemains& remains);
  bool is_comparable(const StreamRecord& record);
  bool has_waited(std::uint64_t slot, std::chrono::nanoseconds now, std::chrono::nanoseconds patience);

  FollowedJob* job_;
  std::size_t row_;
  Rank rank_;
  StreamFollower stream_;
  TablesFollower tables_;
  LiveNumbers numbers_;
  std::vector<Facts> facts_;  // by number of a record's op
  LiveSums sums_;
  SlidingSums recent_;
  std::map<std::string, std::int64_t, std::less<>> lost_;
  std::int64_t unfollowed_ = 0;
  std::int64_t unknown_ = 0;  // overwritten calls that may have changed the numbers of others
  std::optional<std::chrono::nanoseconds> behind_since_;  // calls were overwritten that were not read
  bool is_cut_ = false;                                   // … and the iteration of the next one is not whole
  std::optional<Iteration> cut_iteration_;
  bool is_there_ = false;
  bool can_read_ = false;  // more of what was there at the last look
  bool is_final_ = false;
  bool is_caught_up_ = false;  // what is read from now on happened lately
  std::string error_;
  std::string not_yet_;
  std::chrono::nanoseconds moved_{};
  std::optional<RankPause> pause_;
  std::chrono::nanoseconds pause_ends_{};
  bool has_looked_for_pause_ = false;
  std::optional<std::chrono::nanoseconds> waits_since_;
  std::uint64_t waits_until_ = 0;  // records that were written then
  Iteration iteration_ = k_unknown_iteration;
  std::optional<std::int64_t> iteration_start_ns_;
  StepTally steps_;
  LatestIterations latest_iterations_;
  std::uint64_t dropped_ = 0;            // calls that the recorder did not write, at the last look
  std::optional<Iteration> lossy_from_;  // … more than before it, among records that are not read yet
};

}  // namespace commlens
