#include "commlens/transport/thread_group.hpp"

#include <algorithm>
#include <condition_variable>
#include <thread>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/base/result.hpp"
#include "commlens/transport/thread_exchange.hpp"

namespace commlens {

ThreadJob::ThreadJob(std::int64_t ranks) {
  // A thread that has a core of its own waits a little for the others: waking it up takes longer than a small
  // call does. Where threads share cores, the others need them.
  constexpr int k_alone = 100;
  constexpr int k_shared = 4;
  patience_ = ranks <= static_cast<std::int64_t>(std::thread::hardware_concurrency()) ? k_alone : k_shared;
}

void ThreadJob::end(End end) {
  const std::lock_guard lock(mutex_);
  if (end_) {
    return;
  }
  end_ = std::move(end);
  has_ended_.store(true, std::memory_order_release);
  for (ThreadGroup* group : groups_) {
    group->wake_all();
  }
}

void ThreadJob::throw_if_ended() const {
  if (has_ended()) {
    COMMLENS_CHECK(end_.has_value(), "it is stored before has_ended() says so");
    throw SystemError(end_->told);
  }
}

std::optional<ThreadJob::End> ThreadJob::how_it_ended() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

void ThreadJob::add(ThreadGroup& group) {
  const std::lock_guard lock(mutex_);
  groups_.push_back(&group);
}

void ThreadJob::remove(ThreadGroup& group) {
  const std::lock_guard lock(mutex_);
  std::erase(groups_, &group);
}

class ThreadGroup::Slot {
 public:
  explicit Slot(std::size_t most_members) : exchange(most_members) {}

  /// Makes it a call of `members` that none has posted to.
  void open(std::size_t of_members) {
    members = of_members;
    posted = 0;
    withdrawn = false;
    released.store(0, std::memory_order_relaxed);
    stage.store(Stage::open, std::memory_order_relaxed);
  }

  // Guarded by the group's mutex.
  std::size_t members = 0;
  std::size_t posted = 0;
  std::int64_t first_rank = 0;  // the rank that posted first
  int sleepers = 0;
  bool withdrawn = false;  // a rank has taken back its buffers: the call stays open for ever

  std::condition_variable changed;
  Exchange exchange;  // unchanged once ready
  std::int64_t pieces = 0;
  std::atomic<Stage> stage = Stage::open;  // changed with the mutex held
  std::atomic<std::size_t> released = 0;
  alignas(64) std::atomic<std::int64_t> next = 0;  // piece to take
  alignas(64) std::atomic<std::int64_t> performed = 0;
};

namespace {

std::vector<GroupRank> all_of(const std::vector<Rank>& members) {
  std::vector<GroupRank> all;
  for (std::int64_t rank = 0; rank < static_cast<std::int64_t>(members.size()); ++rank) {
    all.push_back(GroupRank{rank});
  }
  return all;
}

}  // namespace

ThreadGroup::ThreadGroup(std::shared_ptr<ThreadJob> job, std::vector<Rank> members)
    : job_(std::move(job)),
      members_(std::move(members)),
      collectives_(all_of(members_)),
      pairs_(members_.size() * members_.size()),
      has_left_(members_.size()) {
  job_->add(*this);
}

ThreadGroup::~ThreadGroup() { job_->remove(*this); }

ThreadGroup::Slot& ThreadGroup::post(GroupRank self, const CommCall& call) {
  job_->throw_if_ended();
  std::string reason = fault_of(call, self, static_cast<std::int64_t>(members_.size()));
  if (!reason.empty()) {
    throw SystemError(reason);
  }
  Slot* slot = nullptr;
  bool is_last = false;
  {
    const std::lock_guard lock(mutex_);
    Channel& channel = channel_of(self, call);
    const auto place = std::find(channel.members.begin(), channel.members.end(), self);
    const auto member = static_cast<std::size_t>(place - channel.members.begin());
    reason = fault(channel, member, call);
    if (reason.empty()) {
      slot = &slot_of(channel, member);
      const bool is_first = slot->posted == 0;
      slot->first_rank = is_first ? rank_of(self) : slot->first_rank;
      slot->exchange.post(member, call, is_first);
      ++channel.made[member];
      is_last = ++slot->posted == slot->members && !slot->withdrawn;
      channel.first += is_last && !has_withdrawn_ ? 1 : 0;
    }
  }
  if (!reason.empty()) {
    job_->end({.rank = members_[static_cast<std::size_t>(self.value)], .message = reason, .told = reason});
    throw SystemError(reason);
  }
  if (is_last) {
    begin(*slot);
  }
  return *slot;
}

ThreadGroup::Channel& ThreadGroup::channel_of(GroupRank self, const CommCall& call) {
  if (!is_point_to_point(call.kind)) {
    return collectives_;
  }
  const bool sends = call.kind == CommKind::send;
  const GroupRank source = sends ? self : call.peer;
  const GroupRank destination = sends ? call.peer : self;
  const auto size = static_cast<std::int64_t>(members_.size());
  auto& channel = pairs_[static_cast<std::size_t>(source.value * size + destination.value)];
  if (channel == nullptr) {
    channel = std::make_unique<Channel>(std::vector{source, destination});
  }
  return *channel;
}

/// The slot of the call that is `member`'s turn. Calls that all have posted to are no longer in the ring.
ThreadGroup::Slot& ThreadGroup::slot_of(Channel& channel, std::size_t member) {
  const auto place = [](const std::vector<Slot*>& ring, std::int64_t number) {
    return static_cast<std::size_t>(number) % ring.size();
  };
  const std::int64_t number = channel.made[member];
  if (number == channel.next) {
    if (channel.next - channel.first == static_cast<std::int64_t>(channel.open.size())) {
      std::vector<Slot*> larger(std::max<std::size_t>(8, 2 * channel.open.size()));
      for (std::int64_t i = channel.first; i < channel.next; ++i) {
        larger[place(larger, i)] = channel.open[place(channel.open, i)];
      }
      channel.open.swap(larger);
    }
    Slot& slot = unused_slot();
    slot.open(channel.members.size());
    channel.open[place(channel.open, number)] = &slot;
    ++channel.next;
  }
  return *channel.open[place(channel.open, number)];
}

ThreadGroup::Slot& ThreadGroup::unused_slot() {
  if (unused_.empty()) {
    slots_.push_back(std::make_unique<Slot>(members_.size()));
    unused_.reserve(slots_.size());
    return *slots_.back();
  }
  Slot* slot = unused_.back();
  unused_.pop_back();
  return *slot;
}

/// Why `member` cannot make this call now; empty when it can.
std::string ThreadGroup::fault(const Channel& channel, std::size_t member, const CommCall& call) const {
  const std::int64_t self = rank_of(channel.members[member]);
  const std::int64_t number = channel.made[member];
  for (std::size_t i = 0; i < channel.members.size(); ++i) {
    if (has_left_[static_cast<std::size_t>(channel.members[i].value)] && channel.made[i] <= number) {
      return fmt::format("rank {} calls {}, but rank {} has left the group", self, to_text(call),
                         rank_of(channel.members[i]));
    }
  }
  if (number == channel.next) {
    return {};
  }
  const Slot& slot = *channel.open[static_cast<std::size_t>(number) % channel.open.size()];
  if (slot.posted == 0 || agree(slot.exchange.call(), call)) {
    return {};
  }
  return fmt::format("rank {} calls {} where rank {} calls {}", self, to_text(call), slot.first_rank,
                     to_text(slot.exchange.call()));
}

void ThreadGroup::begin(Slot& slot) {
  slot.pieces = slot.exchange.cut(slot.members);
  if (slot.pieces <= 1) {
    if (slot.pieces == 1) {
      slot.exchange.perform(0);
    }
    finish(slot);
    return;
  }
  slot.next.store(0, std::memory_order_relaxed);
  slot.performed.store(0, std::memory_order_relaxed);
  bool has_sleepers = false;
  {
    const std::lock_guard lock(mutex_);
    slot.stage.store(Stage::ready, std::memory_order_release);
    has_sleepers = slot.sleepers > 0;
  }
  if (has_sleepers) {
    slot.changed.notify_all();
  }
}

void ThreadGroup::finish(Slot& slot) {
  bool has_sleepers = false;
  {
    const std::lock_guard lock(mutex_);
    slot.stage.store(Stage::done, std::memory_order_release);
    has_sleepers = slot.sleepers > 0;
  }
  if (has_sleepers) {
    slot.changed.notify_all();
  }
}

void ThreadGroup::take_pieces(Slot& slot) {
  while (true) {
    const std::int64_t piece = slot.next.fetch_add(1, std::memory_order_relaxed);
    if (piece >= slot.pieces) {
      return;
    }
    slot.exchange.perform(piece);
    if (slot.performed.fetch_add(1, std::memory_order_acq_rel) + 1 == slot.pieces) {
      finish(slot);
    }
  }
}

bool ThreadGroup::complete(Slot& slot) {
  while (true) {
    const Stage stage = slot.stage.load(std::memory_order_acquire);
    if (stage == Stage::done) {
      return true;
    }
    if (stage == Stage::ready) {
      take_pieces(slot);
    } else if (job_->has_ended() && withdraw(slot)) {
      return false;
    }
    sleep(slot, stage);
  }
}

bool ThreadGroup::complete_or_withdraw(Slot& slot) { return !withdraw(slot) && complete(slot); }

/// Whether the call was still open: then it will never be carried out.
bool ThreadGroup::withdraw(Slot& slot) {
  const std::lock_guard lock(mutex_);
  const bool will_be_done = slot.posted == slot.members && !slot.withdrawn;
  if (will_be_done || slot.stage.load(std::memory_order_relaxed) != Stage::open) {
    return false;
  }
  slot.withdrawn = true;
  has_withdrawn_ = true;
  return true;
}

/// Returns when the slot has left `stage`, or the job has ended before all ranks posted.
void ThreadGroup::sleep(Slot& slot, Stage stage) const {
  const auto is_over = [&] {
    return slot.stage.load(std::memory_order_acquire) != stage || (stage == Stage::open && job_->has_ended());
  };
  for (int i = 0; i < job_->patience(); ++i) {
    if (is_over()) {
      return;
    }
    std::this_thread::yield();
  }
  std::unique_lock lock(mutex_);
  ++slot.sleepers;
  slot.changed.wait(lock, is_over);
  --slot.sleepers;
}

void ThreadGroup::release(Slot& slot) {
  const std::size_t members = slot.members;  // once all others have released, it may be another call's
  if (slot.released.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
    const std::lock_guard lock(mutex_);
    if (!has_withdrawn_) {
      unused_.push_back(&slot);
    }
  }
}

/// What is not complete because `left` makes no more calls; empty when all is.
std::string ThreadGroup::missing_call(const Channel& channel, GroupRank left) const {
  const auto place = std::find(channel.members.begin(), channel.members.end(), left);
  if (place == channel.members.end()) {
    return {};
  }
  const std::int64_t number = channel.made[static_cast<std::size_t>(place - channel.members.begin())];
  if (number == channel.next) {
    return {};
  }
  const Slot& slot = *channel.open[static_cast<std::size_t>(number) % channel.open.size()];
  return fmt::format("rank {} calls {}, but rank {} has left the group", slot.first_rank,
                     to_text(slot.exchange.call()), rank_of(left));
}

void ThreadGroup::leave(GroupRank self) {
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    has_left_[static_cast<std::size_t>(self.value)] = true;
    reason = missing_call(collectives_, self);
    for (const auto& pair : pairs_) {
      if (reason.empty() && pair != nullptr) {
        reason = missing_call(*pair, self);
      }
    }
  }
  if (!reason.empty()) {
    job_->end({.rank = members_[static_cast<std::size_t>(self.value)], .message = reason, .told = reason});
  }
}

std::shared_ptr<ThreadGroup> ThreadGroup::part(std::int64_t split, std::int64_t color,
                                               const std::vector<Rank>& members) {
  const std::lock_guard lock(parts_mutex_);
  const auto place = parts_.try_emplace({split, color}).first;
  Part& part = place->second;
  if (part.group == nullptr) {
    part.group = std::make_shared<ThreadGroup>(job_, members);
  }
  std::shared_ptr<ThreadGroup> group = part.group;
  if (++part.taken == members.size()) {
    parts_.erase(place);
  }
  return group;
}

void ThreadGroup::wake_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& slot : slots_) {
    slot->changed.notify_all();
  }
}

std::int64_t ThreadGroup::rank_of(GroupRank member) const {
  return members_[static_cast<std::size_t>(member.value)].value;
}

}  // namespace commlens
