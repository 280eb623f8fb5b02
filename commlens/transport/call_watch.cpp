#include "commlens/transport/call_watch.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/result.hpp"
#include "commlens/base/units.hpp"
#include "commlens/trace/clock.hpp"
#include "commlens/transport/call_check.hpp"

namespace commlens {
namespace {

/// Mixes numbers into a key (splitmix64); never 0.
std::uint64_t mixed(std::uint64_t key, std::uint64_t number) {
  std::uint64_t value = key + 0x9E3779B97F4A7C15U * (number + 1);
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  value ^= value >> 31U;
  return value == 0 ? 1 : value;
}

/// The key of the sends, or of the recvs, from one rank of a group to another.
std::uint64_t message_key(std::uint64_t group, GroupRank from, GroupRank to, CommKind side) {
  return mixed(
      mixed(mixed(group, static_cast<std::uint64_t>(from.value)), static_cast<std::uint64_t>(to.value)),
      side == CommKind::send ? 1 : 2);
}

/// "ranks 0-3, 8": runs of neighbours, not too many.
std::string ranks_text(const std::vector<Rank>& ranks) {
  constexpr int k_most_runs = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  int runs = 0;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1].value == ranks[last].value + 1) {
      ++last;
    }
    if (++runs > k_most_runs) {
      return text + fmt::format(", … ({} in all)", ranks.size());
    }
    text += runs > 1 ? ", " : "";
    text += first == last ? fmt::format("{}", ranks[first].value)
                          : fmt::format("{}-{}", ranks[first].value, ranks[last].value);
    first = last + 1;
  }
  return text;
}

GroupRank place_of(const std::vector<Rank>& members, std::int64_t rank) {
  return {std::find(members.begin(), members.end(), Rank{rank}) - members.begin()};
}

std::int64_t rank_in(const Communicator& group) {
  return group.members()[static_cast<std::size_t>(group.rank().value)].value;
}

WaitedCall waited_call(const CommCall& call, std::uint64_t group, std::int64_t number) {
  WaitedCall waited{.group = group,
                    .number = number,
                    .input = call.input.value,
                    .output = call.output.value,
                    .peer = static_cast<std::int32_t>(call.peer.value),
                    .kind = call.kind,
                    .dtype = call.dtype};
  const std::size_t bytes = std::min(call.tag.size(), waited.tag.size() - 1);
  call.tag.copy(waited.tag.data(), bytes);  // a call without a tag has no data at all
  return waited;
}

/// Publishes, during its lifetime, the call that a rank waits for.
class Waits {
 public:
  Waits(RankEntry& entry, const WaitedCall& call) : entry_(entry) {
    entry_.wait_for(call, Clock::of_process().now_ns());
  }
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;
  ~Waits() { entry_.stop_waiting(); }

 private:
  RankEntry& entry_;
};

}  // namespace

/// A group on the board.
struct WatchedGroup {
  std::uint64_t key = 0;
  std::vector<const RankEntry*> entries;  // of the members

  /// The time at which the last rank of a call issued it, as far as it is known.
  std::int64_t last_issue_ns(std::uint64_t calls, std::int64_t number) const {
    std::int64_t last = 0;
    for (const RankEntry* const entry : entries) {
      const GroupCalls* const made = entry->find(calls);
      last = std::max(last, made == nullptr ? 0 : made->issue_of(number).value_or(0));
    }
    return last;
  }
};

class WatchedWork final : public Work {
 public:
  WatchedWork(std::unique_ptr<Work> work, std::shared_ptr<CallWatch> watch,
              std::shared_ptr<const WatchedGroup> group, std::int64_t rank, const WaitedCall& call,
              std::uint64_t others)
      : work_(std::move(work)),
        watch_(std::move(watch)),
        group_(std::move(group)),
        rank_(rank),
        call_(call),
        others_(others) {}

  void wait() override {
    if (work_ == nullptr) {
      return;
    }
    RankEntry& entry = watch_->board_.entry(rank_);
    const std::int64_t now_ns = Clock::of_process().now_ns();
    {
      const Waits waits(entry, call_);
      work_->wait();
    }
    moved_ = work_->moved();
    if (!work_->is_complete()) {
      watch_->keep({.rank = rank_, .waiting = {call_, now_ns}, .work = std::move(work_)});
    }
  }

  bool is_complete() override {
    if (work_ != nullptr && !work_->is_complete()) {
      return false;
    }
    if (work_ != nullptr) {
      moved_ = work_->moved();
    }
    return true;
  }

  /// The transport may start the call before all ranks have issued it.
  std::optional<MovedTimes> moved() const override {
    if (!moved_) {
      return std::nullopt;
    }
    const std::int64_t last_ns = group_->last_issue_ns(others_, call_.number);
    return MovedTimes{std::min(std::max(moved_->started_ns, last_ns), moved_->finished_ns),
                      moved_->finished_ns};
  }

 private:
  std::unique_ptr<Work> work_;  // null after it was moved to the watch
  std::shared_ptr<CallWatch> watch_;
  std::shared_ptr<const WatchedGroup> group_;
  std::int64_t rank_;
  WaitedCall call_;
  std::uint64_t others_;  // key under which the other ranks of the call count it
  std::optional<MovedTimes> moved_;
};

class WatchedCommunicator final : public Communicator {
 public:
  WatchedCommunicator(std::unique_ptr<Communicator> communicator, std::shared_ptr<CallWatch> watch,
                      std::uint64_t key, bool is_world)
      : communicator_(std::move(communicator)),
        watch_(std::move(watch)),
        self_(rank_in(*communicator_)),
        entry_(watch_->board_.entry(self_)),
        calls_(entry_.find_or_add(key)),
        is_world_(is_world) {
    auto group = std::make_shared<WatchedGroup>(WatchedGroup{.key = key});
    for (const Rank member : members()) {
      group->entries.push_back(&watch_->board_.entry(member.value));
    }
    group_ = std::move(group);
    watch_->add_group(key, members());
    if (is_world_) {
      watch_->add(*communicator_);
    }
  }
  WatchedCommunicator(const WatchedCommunicator&) = delete;
  WatchedCommunicator& operator=(const WatchedCommunicator&) = delete;
  ~WatchedCommunicator() override {
    if (is_world_) {
      watch_->remove(*communicator_);
    }
  }

  const std::vector<Rank>& members() const override { return communicator_->members(); }
  GroupRank rank() const override { return communicator_->rank(); }
  bool makes_progress() const override { return communicator_->makes_progress(); }
  bool starting_pays() const override { return communicator_->starting_pays(); }

  std::unique_ptr<Work> start(const CommCall& call) override {
    const WaitedCall counted = count(call);
    return std::make_unique<WatchedWork>(communicator_->start(call), watch_, group_, self_, counted,
                                         key_of_others(call));
  }

  void run(const CommCall& call) override {
    const Waits waits(entry_, count(call));
    communicator_->run(call);
  }

  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    const auto number = static_cast<std::uint64_t>(splits_++);
    const std::uint64_t key_of_part = mixed(mixed(group_->key, number), static_cast<std::uint64_t>(color));
    std::unique_ptr<Communicator> part;
    {
      const Waits waits(entry_, count({.kind = CommKind::barrier, .tag = "split"}));
      part = communicator_->split(color, key);
    }
    return part == nullptr
               ? nullptr
               : std::make_unique<WatchedCommunicator>(std::move(part), watch_, key_of_part, false);
  }

  void abort(std::string_view reason) override { communicator_->abort(reason); }

 private:
  WaitedCall count(const CommCall& call) {
    GroupCalls* const calls = calls_of(call);
    const std::int64_t number = calls == nullptr ? 0 : calls->made.load(std::memory_order_relaxed);
    if (calls != nullptr) {
      calls->add(Clock::of_process().now_ns());
    }
    return waited_call(call, group_->key, number);
  }

  GroupCalls* calls_of(const CommCall& call) {
    if (!is_point_to_point(call.kind)) {
      return calls_;
    }
    const bool sends = call.kind == CommKind::send;
    return entry_.find_or_add(
        message_key(group_->key, sends ? rank() : call.peer, sends ? call.peer : rank(), call.kind));
  }

  /// The key under which the other ranks of the call count it.
  std::uint64_t key_of_others(const CommCall& call) const {
    if (!is_point_to_point(call.kind)) {
      return group_->key;
    }
    return call.kind == CommKind::send ? message_key(group_->key, rank(), call.peer, CommKind::recv)
                                       : message_key(group_->key, call.peer, rank(), CommKind::send);
  }

  std::unique_ptr<Communicator> communicator_;
  std::shared_ptr<CallWatch> watch_;
  std::int64_t self_;
  RankEntry& entry_;
  GroupCalls* calls_;
  bool is_world_;
  std::shared_ptr<const WatchedGroup> group_;
  std::int64_t splits_ = 0;
};

std::shared_ptr<CallWatch> CallWatch::make(CallBoard board, WatchOptions options) {
  return std::make_shared<CallWatch>(std::move(board), std::move(options));
}

CallWatch::CallWatch(CallBoard board, WatchOptions options)
    : board_(std::move(board)), options_(std::move(options)) {
  if (options_.timeout.count() > 0) {
    thread_ = std::thread(&CallWatch::run, this);
  }
}

CallWatch::~CallWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

std::unique_ptr<Communicator> CallWatch::watched(std::unique_ptr<Communicator> world, std::uint64_t layer) {
  return std::make_unique<WatchedCommunicator>(std::move(world), shared_from_this(), mixed(0, layer), true);
}

void CallWatch::add(Communicator& world) {
  const std::lock_guard lock(mutex_);
  worlds_.push_back(&world);
}

void CallWatch::remove(Communicator& world) {
  const std::int64_t rank = rank_in(world);
  std::vector<Unfinished> calls;  // they end outside of the lock
  const std::lock_guard lock(mutex_);
  std::erase(worlds_, &world);
  const auto others = std::stable_partition(unfinished_.begin(), unfinished_.end(),
                                            [&](const Unfinished& call) { return call.rank != rank; });
  std::move(others, unfinished_.end(), std::back_inserter(calls));
  unfinished_.erase(others, unfinished_.end());
}

void CallWatch::add_group(std::uint64_t key, const std::vector<Rank>& members) {
  const std::lock_guard lock(mutex_);
  groups_.try_emplace(key, members);
}

void CallWatch::keep(Unfinished call) {
  const std::lock_guard lock(mutex_);
  if (options_.timeout.count() > 0) {
    std::erase_if(unfinished_, [](const Unfinished& known) { return known.work->is_complete(); });
    unfinished_.push_back(std::move(call));
  }
}

void CallWatch::run() {
  using std::chrono::nanoseconds;
  constexpr nanoseconds k_longest = std::chrono::seconds(1);
  constexpr nanoseconds k_shortest = std::chrono::milliseconds(5);
  const nanoseconds period = std::clamp(options_.timeout / 20, k_shortest, k_longest);
  std::unique_lock lock(mutex_);
  while (!over_changed_.wait_for(lock, period, [&] { return is_over_; })) {
    look();
  }
}

/// Called with the mutex held, so that no communicator is destroyed meanwhile.
void CallWatch::look() {
  const std::int64_t now_ns = Clock::of_process().now_ns();
  if (!ended_for_.empty()) {
    if (options_.give_up && now_ns - ended_ns_ > options_.grace.count()) {
      std::exchange(options_.give_up, nullptr)(fmt::format("rank {}: {}", ended_rank_, ended_for_));
    }
    return;
  }
  const auto is_late = [&](const RankEntry::Waiting& waiting) {
    return now_ns - waiting.from_ns > options_.timeout.count();
  };
  for (Communicator* const world : worlds_) {
    const std::int64_t rank = rank_in(*world);
    const auto waiting = board_.entry(rank).waiting();
    if (waiting && is_late(*waiting)) {
      return end_job(rank, *waiting);
    }
  }
  std::erase_if(unfinished_, [](const Unfinished& call) {
    try {
      return call.work->is_complete();
    } catch (const SystemError&) {
      return true;  // its rank fails in its next call
    }
  });
  for (const Unfinished& call : unfinished_) {
    if (is_late(call.waiting)) {
      return end_job(call.rank, call.waiting);
    }
  }
}

void CallWatch::end_job(std::int64_t rank, const RankEntry::Waiting& waiting) {
  ended_for_ = reason_of(rank, waiting);
  ended_rank_ = rank;
  ended_ns_ = Clock::of_process().now_ns();
  if (!board_.claim_end()) {
    return;  // another process of the machine ends the job
  }
  const auto is_its_world = [&](Communicator* world) { return rank_in(*world) == rank; };
  const auto world = std::find_if(worlds_.rbegin(), worlds_.rend(), is_its_world);  // the topmost layer
  if (world != worlds_.rend()) {
    (*world)->abort(ended_for_);
  }
}

/// `"all_reduce of 4 fp32 "loss", call 7 of ranks 0-3"`.
std::string CallWatch::call_text(const WaitedCall& call) const {
  CommCall described{.kind = call.kind,
                     .dtype = call.dtype,
                     .input = {call.input},
                     .output = {call.output},
                     .peer = {call.peer},
                     .tag = call.tag.data()};
  std::string text = to_text(described);
  if (call.kind == CommKind::barrier && !described.tag.empty()) {
    text = described.tag;  // not a call, e.g. a split
  }
  const auto group = groups_.find(call.group);
  if (group == groups_.end()) {
    return text;
  }
  if (is_point_to_point(call.kind)) {
    const Rank peer = group->second.at(static_cast<std::size_t>(call.peer));
    text += fmt::format(" {} rank {}", call.kind == CommKind::send ? "to" : "from", peer.value);
  }
  return text + fmt::format(", call {} of {}", call.number + 1, ranks_text(group->second));
}

/// The key under which the ranks that `rank` waits for count the call.
std::uint64_t CallWatch::key_of_others(std::int64_t rank, const WaitedCall& call) const {
  const auto group = groups_.find(call.group);
  if (group == groups_.end() || !is_point_to_point(call.kind)) {
    return call.group;
  }
  const GroupRank self = place_of(group->second, rank);
  const GroupRank peer{call.peer};
  return call.kind == CommKind::send ? message_key(call.group, self, peer, CommKind::recv)
                                     : message_key(call.group, peer, self, CommKind::send);
}

/// The ranks that `rank` waits for: those that have not made the call, and those that are unknown on this
/// machine.
CallWatch::Absent CallWatch::absent(std::int64_t rank, const WaitedCall& call) const {
  Absent absent;
  const auto group = groups_.find(call.group);
  if (group == groups_.end()) {
    return absent;
  }
  const std::uint64_t key = key_of_others(rank, call);
  for (std::size_t place = 0; place < group->second.size(); ++place) {
    const Rank member = group->second[place];
    const bool takes_part = !is_point_to_point(call.kind) || static_cast<std::int64_t>(place) == call.peer;
    if (!takes_part || member.value == rank) {
      continue;
    }
    const RankEntry& entry = board_.entry(member.value);
    const GroupCalls* const calls = entry.find(key);
    const std::int64_t made = calls == nullptr ? 0 : calls->made.load(std::memory_order_acquire);
    if (!entry.is_present()) {
      absent.unknown.push_back(member);
    } else if (made <= call.number) {
      absent.missing.push_back(member);
    }
  }
  return absent;
}

/// "rank 2 (busy outside of communication), rank 3 (waits for barrier, call 2 of ranks 0-3)"; details of a
/// few ranks only.
std::string CallWatch::missing_text(const std::vector<Rank>& missing) const {
  constexpr std::size_t k_most_in_words = 4;
  if (missing.size() > k_most_in_words) {
    return ranks_text(missing);
  }
  std::string text;
  for (const Rank rank : missing) {
    const auto waiting = board_.entry(rank.value).waiting();
    text += fmt::format("{}rank {} ({})", text.empty() ? "" : ", ", rank.value,
                        waiting ? "waits for " + call_text(waiting->call) : "busy outside of communication");
  }
  return text;
}

std::string CallWatch::reason_of(std::int64_t rank, const RankEntry::Waiting& waiting) const {
  const Absent who = absent(rank, waiting.call);
  std::string lacks;
  if (!who.missing.empty()) {
    lacks = "missing: " + missing_text(who.missing);
  }
  if (!who.unknown.empty()) {
    lacks += fmt::format("{}not known here: {}", lacks.empty() ? "" : "; ", ranks_text(who.unknown));
  }
  if (lacks.empty()) {
    lacks =
        "all its ranks have made it: one of them is stopped, or the network or the library does not move it";
  }
  return fmt::format("waited {} for {}; {}", to_text(options_.timeout), call_text(waiting.call), lacks);
}

}  // namespace commlens
