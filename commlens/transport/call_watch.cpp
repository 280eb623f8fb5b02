#include "commlens/transport/call_watch.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/result.hpp"
#include "commlens/base/units.hpp"
#include "commlens/trace/clock.hpp"
#include "commlens/transport/call_check.hpp"
#include "commlens/transport/watched_communicator.hpp"

namespace commlens {
namespace {

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

}  // namespace

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
  return watched_communicator(std::move(world), shared_from_this(), mixed_key(0, layer));
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

void CallWatch::set_rest(std::int64_t rank, std::vector<WaitedCall> calls) {
  const std::lock_guard lock(mutex_);
  rest_[rank] = std::move(calls);
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
      return end_job(rank, hindered(rank, *waiting, rest_[rank]));
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
      return end_job(call.rank, hindered(call.rank, call.waiting, call.rest));
    }
  }
}

/// Of calls that were issued as one, the first that some rank has not made.
RankEntry::Waiting CallWatch::hindered(std::int64_t rank, const RankEntry::Waiting& first,
                                       const std::vector<WaitedCall>& rest) const {
  const auto is_missed = [&](const WaitedCall& call) { return !absent(rank, call).missing.empty(); };
  if (is_missed(first.call)) {
    return first;
  }
  const auto other = std::find_if(rest.begin(), rest.end(), is_missed);
  return other == rest.end() ? first : RankEntry::Waiting{*other, first.from_ns};
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
                     .tag = call.tag.data(),
                     .other = call.other};
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
