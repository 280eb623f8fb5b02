#include "commlens/transport/watched_communicator.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "commlens/trace/clock.hpp"
#include "commlens/transport/call_board.hpp"

namespace commlens {
namespace {

WaitedCall waited_call(const CommCall& call, std::uint64_t group, std::int64_t number) {
  WaitedCall waited{.group = group,
                    .number = number,
                    .input = call.input.value,
                    .output = call.output.value,
                    .peer = static_cast<std::int32_t>(call.peer.value),
                    .kind = call.kind,
                    .dtype = call.dtype,
                    .other = call.other};
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

std::uint64_t mixed_key(std::uint64_t key, std::uint64_t number) {
  std::uint64_t value = key + 0x9E3779B97F4A7C15U * (number + 1);
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  value ^= value >> 31U;
  return value == 0 ? 1 : value;
}

std::uint64_t message_key(std::uint64_t group, GroupRank from, GroupRank to, CommKind side) {
  return mixed_key(mixed_key(mixed_key(group, static_cast<std::uint64_t>(from.value)),
                             static_cast<std::uint64_t>(to.value)),
                   side == CommKind::send ? 1 : 2);
}

std::int64_t rank_in(const Communicator& group) {
  return group.members()[static_cast<std::size_t>(group.rank().value)].value;
}

/// A group on the board.
struct WatchedGroup {
  std::uint64_t key = 0;
  std::int64_t self = 0;                  // the rank of the job
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

/// A call that a rank has issued.
struct CountedCall {
  WaitedCall call;
  std::uint64_t others = 0;  // key under which the other ranks of the call count it
};

class WatchedWork final : public Work {
 public:
  /// `rest`: calls that were issued as one with it.
  WatchedWork(std::unique_ptr<Work> work, std::shared_ptr<CallWatch> watch,
              std::shared_ptr<const WatchedGroup> group, const CountedCall& call,
              std::vector<CountedCall> rest = {})
      : work_(std::move(work)),
        watch_(std::move(watch)),
        group_(std::move(group)),
        rank_(group_->self),
        call_(call),
        rest_(std::move(rest)) {}

  void wait() override {
    if (work_ == nullptr) {
      return;
    }
    RankEntry& entry = watch_->board_.entry(rank_);
    const std::int64_t now_ns = Clock::of_process().now_ns();
    {
      const WaitsForMore more(*watch_, rank_, rest());
      const Waits waits(entry, call_.call);
      work_->wait();
    }
    moved_ = work_->moved();
    if (!work_->is_complete()) {
      watch_->keep(
          {.rank = rank_, .waiting = {call_.call, now_ns}, .rest = rest(), .work = std::move(work_)});
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
    std::int64_t last_ns = group_->last_issue_ns(call_.others, call_.call.number);
    for (const CountedCall& one : rest_) {
      last_ns = std::max(last_ns, group_->last_issue_ns(one.others, one.call.number));
    }
    return MovedTimes{std::min(std::max(moved_->started_ns, last_ns), moved_->finished_ns),
                      moved_->finished_ns};
  }

 private:
  std::vector<WaitedCall> rest() const {
    std::vector<WaitedCall> calls;
    for (const CountedCall& one : rest_) {
      calls.push_back(one.call);
    }
    return calls;
  }

  /// Tells the watch, during its lifetime, what a rank waits for besides the call on the board.
  class WaitsForMore {
   public:
    WaitsForMore(CallWatch& watch, std::int64_t rank, std::vector<WaitedCall> calls)
        : watch_(watch), rank_(rank), is_any_(!calls.empty()) {
      if (is_any_) {
        watch_.set_rest(rank_, std::move(calls));
      }
    }
    WaitsForMore(const WaitsForMore&) = delete;
    WaitsForMore& operator=(const WaitsForMore&) = delete;
    ~WaitsForMore() {
      if (is_any_) {
        watch_.set_rest(rank_, {});
      }
    }

   private:
    CallWatch& watch_;
    std::int64_t rank_;
    bool is_any_;
  };

  std::unique_ptr<Work> work_;  // null after it was moved to the watch
  std::shared_ptr<CallWatch> watch_;
  std::shared_ptr<const WatchedGroup> group_;
  std::int64_t rank_;
  CountedCall call_;
  std::vector<CountedCall> rest_;
  std::optional<MovedTimes> moved_;
};

class WatchedCommunicator final : public Communicator {
 public:
  WatchedCommunicator(std::unique_ptr<Communicator> communicator, std::shared_ptr<CallWatch> watch,
                      std::uint64_t key, bool is_world)
      : communicator_(std::move(communicator)),
        watch_(std::move(watch)),
        entry_(watch_->board_.entry(rank_in(*communicator_))),
        calls_(entry_.find_or_add(key)),
        is_world_(is_world) {
    auto group = std::make_shared<WatchedGroup>(WatchedGroup{.key = key, .self = rank_in(*communicator_)});
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
    const CountedCall counted{count(call), key_of_others(call)};
    return std::make_unique<WatchedWork>(communicator_->start(call), watch_, group_, counted);
  }

  std::unique_ptr<Work> start_group(std::span<const CommCall> calls) override {
    if (calls.empty()) {
      return communicator_->start_group(calls);
    }
    const CountedCall first{count(calls.front()), key_of_others(calls.front())};
    std::vector<CountedCall> rest;
    for (const CommCall& call : calls.subspan(1)) {
      rest.push_back({count(call), key_of_others(call)});
    }
    return std::make_unique<WatchedWork>(communicator_->start_group(calls), watch_, group_, first,
                                         std::move(rest));
  }

  void run(const CommCall& call) override {
    const Waits waits(entry_, count(call));
    communicator_->run(call);
  }

  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    const auto number = static_cast<std::uint64_t>(splits_++);
    const std::uint64_t key_of_part =
        mixed_key(mixed_key(group_->key, number), static_cast<std::uint64_t>(color));
    std::unique_ptr<Communicator> part;
    {
      const Waits waits(entry_, count({.kind = CommKind::barrier, .tag = "split"}));
      part = communicator_->split(color, key);
    }
    return part == nullptr
               ? nullptr
               : std::make_unique<WatchedCommunicator>(std::move(part), watch_, key_of_part, false);
  }

  std::vector<std::string> algorithms(CommKind kind) const override {
    return communicator_->algorithms(kind);
  }

  Result<std::unique_ptr<Communicator>> with_algorithm(CommKind kind, const std::string& algorithm) override {
    const std::uint64_t key_of_chosen = mixed_key(group_->key, static_cast<std::uint64_t>(splits_++));
    const auto made = [&] {
      const Waits waits(entry_, count({.kind = CommKind::barrier, .tag = "with_algorithm"}));
      return communicator_->with_algorithm(kind, algorithm);
    };
    return made().map([&](std::unique_ptr<Communicator> chosen) -> std::unique_ptr<Communicator> {
      return std::make_unique<WatchedCommunicator>(std::move(chosen), watch_, key_of_chosen, false);
    });
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
  RankEntry& entry_;
  GroupCalls* calls_;
  bool is_world_;
  std::shared_ptr<const WatchedGroup> group_;
  std::int64_t splits_ = 0;
};

std::unique_ptr<Communicator> watched_communicator(std::unique_ptr<Communicator> world,
                                                   std::shared_ptr<CallWatch> watch, std::uint64_t key) {
  return std::make_unique<WatchedCommunicator>(std::move(world), std::move(watch), key, true);
}

}  // namespace commlens
