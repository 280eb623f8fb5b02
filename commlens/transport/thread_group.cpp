#include "commlens/transport/thread_group.hpp"

#include <algorithm>
#include <condition_variable>
#include <thread>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/base/result.hpp"
#include "commlens/trace/clock.hpp"
#include "commlens/transport/thread_assistants.hpp"
#include "commlens/transport/thread_exchange.hpp"

namespace commlens {

ThreadJob::ThreadJob(std::int64_t ranks, int assistants) {
  // A thread with its own core spins for a short time: waking it up takes longer than a small call. If
  // threads share cores, the others need them.
  constexpr SpinLimits k_alone{.lock_tries = 200, .yields = 100};
  constexpr SpinLimits k_shared{.lock_tries = 0, .yields = 4};
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  spin_limits_ = ranks <= cores ? k_alone : k_shared;
  if (assistants > 0) {
    assistants_ = std::make_unique<Assistants>(assistants);
    if (!assistants_->any()) {
      assistants_.reset();
    }
  }
}

ThreadJob::~ThreadJob() = default;

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
    throw SystemError(end_->reason);
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
  explicit Slot(std::size_t most_members) : exchange(most_members), next(most_members) {}

  /// Makes it a call of `members` that none has posted to.
  void open(std::size_t of_members) {
    members = of_members;
    posted = 0;
    withdrawn = false;
    has_assistants = false;
    started_ns.store(0, std::memory_order_relaxed);
    released.store(0, std::memory_order_relaxed);
    stage.store(Stage::open, std::memory_order_relaxed);
  }

  // Guarded by the group's mutex.
  std::size_t members = 0;
  std::size_t posted = 0;
  std::int64_t first_rank = 0;  // the rank that posted first
  int sleepers = 0;
  bool withdrawn = false;  // a rank has released its buffers: the call stays open forever

  std::condition_variable changed;
  Exchange exchange;  // unchanged once ready, and so are the next three
  std::int64_t pieces = 0;
  bool has_assistants = false;               // they release the slot too
  std::int64_t finished_ns = 0;              // unchanged once done
  std::atomic<std::int64_t> started_ns = 0;  // when the first piece was taken; 0: none was
  std::atomic<Stage> stage = Stage::open;    // changed with the mutex held
  std::atomic<std::size_t> released = 0;
  struct alignas(64) NextPiece {
    std::atomic<std::int64_t> piece = 0;
  };
  std::vector<NextPiece> next;  // to take, by the member it belongs to
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

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
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

ThreadGroup::~ThreadGroup() {
  if (Assistants* const assistants = job_->assistants()) {
    assistants->forget(*this);
  }
  job_->remove(*this);
}

ThreadGroup::Part ThreadGroup::post(GroupRank self, const CommCall& call) {
  job_->throw_if_ended();
  std::string reason = fault_of(call, self, static_cast<std::int64_t>(members_.size()));
  if (!reason.empty()) {
    throw SystemError(reason);
  }
  Slot* slot = nullptr;
  std::size_t member = 0;
  bool is_last = false;
  {
    const std::unique_lock lock = locked();
    Channel& channel = channel_of(self, call);
    const auto place = std::find(channel.members.begin(), channel.members.end(), self);
    member = static_cast<std::size_t>(place - channel.members.begin());
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
    // Another rank may have ended the job since this call began: its reason is the one to tell.
    job_->end({.rank = members_[static_cast<std::size_t>(self.value)], .message = reason, .reason = reason});
    job_->throw_if_ended();
  }
  if (is_last) {
    begin(*slot);
  }
  return {slot, member};
}

/// Holds the mutex. Spins first: others hold it for less time than the system takes to put a thread to sleep
/// and wake it up.
std::unique_lock<std::mutex> ThreadGroup::locked() const {
  std::unique_lock lock(mutex_, std::try_to_lock);
  for (int tries = job_->spin_limits().lock_tries; !lock.owns_lock() && tries > 0; --tries) {
    pause_core();
    static_cast<void>(lock.try_lock());
  }
  if (!lock.owns_lock()) {
    lock.lock();
  }
  return lock;
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

/// The reason why `member` cannot make this call now; empty if it can.
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
  if (slot.posted == 0) {
    return {};
  }
  if (!agree(slot.exchange.call(), call)) {
    return fmt::format("rank {} calls {} where rank {} calls {}", self, to_text(call), slot.first_rank,
                       to_text(slot.exchange.call()));
  }
  return has_parts(call) ? parts_fault(slot, channel.members[member], call) : std::string();
}

/// Whose parts do not match those of `self`, and where. A call that a rank has withdrawn from is not carried
/// out, and the sizes that this rank gave are gone.
std::string ThreadGroup::parts_fault(const Slot& slot, GroupRank self, const CommCall& call) const {
  std::string fault;
  for (const Exchange::PostedCall& posted : slot.exchange.with_parts()) {
    if (fault.empty() && !slot.withdrawn) {
      const GroupRank place{static_cast<std::int64_t>(posted.member)};
      fault = parts_mismatch(posted.call, {place, Rank{rank_of(place)}}, call, {self, Rank{rank_of(self)}});
    }
  }
  return fault;
}

void ThreadGroup::begin(Slot& slot) {
  slot.pieces = slot.exchange.cut(slot.members);
  if (slot.pieces <= 1) {
    slot.started_ns.store(Clock::of_process().now_ns(), std::memory_order_relaxed);
    if (slot.pieces == 1) {
      slot.exchange.perform(0);
    }
    finish(slot);
    return;
  }
  for (std::size_t owner = 0; owner < slot.members; ++owner) {
    slot.next[owner].piece.store(slot.exchange.first_piece(owner), std::memory_order_relaxed);
  }
  slot.performed.store(0, std::memory_order_relaxed);
  Assistants* const assistants = job_->assistants();
  slot.has_assistants = assistants != nullptr;
  bool has_sleepers = false;
  {
    const std::unique_lock lock = locked();
    slot.stage.store(Stage::ready, std::memory_order_release);
    has_sleepers = slot.sleepers > 0;
  }
  if (has_sleepers) {
    slot.changed.notify_all();
  }
  if (assistants != nullptr) {
    assistants->offer(*this, slot);
  }
}

void ThreadGroup::finish(Slot& slot) {
  slot.finished_ns = Clock::of_process().now_ns();
  bool has_sleepers = false;
  {
    const std::unique_lock lock = locked();
    slot.stage.store(Stage::done, std::memory_order_release);
    has_sleepers = slot.sleepers > 0;
  }
  if (has_sleepers) {
    slot.changed.notify_all();
  }
}

/// The pieces of `first_owner`, then those that the other members have not started.
void ThreadGroup::take_pieces(Slot& slot, std::size_t first_owner) {
  for (std::size_t i = 0; i < slot.members; ++i) {
    while (take_piece_of(slot, (first_owner + i) % slot.members)) {
    }
  }
}

/// Returns whether there was one.
bool ThreadGroup::take_piece_of(Slot& slot, std::size_t owner) {
  std::atomic<std::int64_t>& next = slot.next[owner].piece;
  const std::int64_t end = slot.exchange.first_piece(owner + 1);
  if (next.load(std::memory_order_relaxed) >= end) {
    return false;
  }
  const std::int64_t piece = next.fetch_add(1, std::memory_order_relaxed);
  if (piece >= end) {
    return false;
  }
  if (slot.started_ns.load(std::memory_order_relaxed) == 0) {
    std::int64_t none = 0;
    slot.started_ns.compare_exchange_strong(none, Clock::of_process().now_ns(), std::memory_order_relaxed);
  }
  slot.exchange.perform(piece);
  if (slot.performed.fetch_add(1, std::memory_order_acq_rel) + 1 == slot.pieces) {
    finish(slot);
  }
  return true;
}

void ThreadGroup::assist(Slot& slot) { take_pieces(slot, 0); }

bool ThreadGroup::complete(const Part& part) {
  Slot& slot = *part.slot;
  while (true) {
    const Stage stage = slot.stage.load(std::memory_order_acquire);
    if (stage == Stage::done) {
      return true;
    }
    if (stage == Stage::ready) {
      take_pieces(slot, part.member);
    } else if (job_->has_ended() && withdraw(slot)) {
      return false;
    }
    sleep(slot, stage);
  }
}

bool ThreadGroup::complete_or_withdraw(const Part& part) { return !withdraw(*part.slot) && complete(part); }

bool ThreadGroup::advance(const Part& part) {
  Slot& slot = *part.slot;
  if (slot.stage.load(std::memory_order_acquire) == Stage::ready) {
    for (std::size_t i = 0; i < slot.members; ++i) {
      if (take_piece_of(slot, (part.member + i) % slot.members)) {
        break;
      }
    }
  }
  return slot.stage.load(std::memory_order_acquire) == Stage::done;
}

MovedTimes ThreadGroup::moved(const Slot& slot) {
  return {slot.started_ns.load(std::memory_order_relaxed), slot.finished_ns};
}

/// Returns whether the call was still open; if so, it will never be carried out.
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
  for (int i = 0; i < job_->spin_limits().yields; ++i) {
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
  // After all others have released the slot, another call may use it.
  const std::size_t users = slot.members + (slot.has_assistants ? 1 : 0);
  if (slot.released.fetch_add(1, std::memory_order_acq_rel) + 1 == users) {
    const std::unique_lock lock = locked();
    if (!has_withdrawn_) {
      unused_.push_back(&slot);
    }
  }
}

/// The calls that stay incomplete because `left` makes no more calls; empty if there are none.
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
    job_->end({.rank = members_[static_cast<std::size_t>(self.value)], .message = reason, .reason = reason});
  }
}

std::shared_ptr<ThreadGroup> ThreadGroup::subgroup(std::int64_t split, std::int64_t color,
                                                   const std::vector<Rank>& members) {
  const std::lock_guard lock(subgroups_mutex_);
  const auto place = subgroups_.try_emplace({split, color}).first;
  Subgroup& part = place->second;
  if (part.group == nullptr) {
    part.group = std::make_shared<ThreadGroup>(job_, members);
  }
  std::shared_ptr<ThreadGroup> group = part.group;
  if (++part.taken == members.size()) {
    subgroups_.erase(place);
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
