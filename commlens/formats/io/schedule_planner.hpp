#pragma once
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "commlens/formats/io/schedule.hpp"

namespace commlens::formats {

/// Finds out which calls of different ranks belong together: fills the pairs and series of a schedule.
class SchedulePlanner {
 public:
  explicit SchedulePlanner(CallSchedule& schedule) : schedule_(schedule), trace_(schedule.trace_) {}
  void plan();

 private:
  struct Message {
    CommunicatorId communicator{};
    std::int64_t bytes = 0;
    std::uint32_t waited_at = 0;  // of a receive
  };
  struct Messages {  // in order of their starts
    std::vector<Message> sends;
    std::vector<Message> receives;
  };
  /// What one member calls on a group.
  struct Member {
    std::uint32_t calls = 0;
    std::uint64_t order = 0;       // of all signatures, in their order
    std::uint64_t exchanges = 0;   // of the sizes of all_to_alls, in their order
    std::uint32_t busy_until = 0;  // the position that waits for a call before
    std::map<CallSignature, std::uint32_t> by_signature;
  };
  struct Group {
    std::map<Rank, Member> callers;
    bool overlaps = false;
  };
  using Groups = std::map<GroupKey, Group>;
  struct Target {  // of an op, as one rank calls it
    std::uint32_t pair = 0;
    Groups::value_type* group = nullptr;
    bool is_message = false;
  };

  void collect(const RankStream& stream, Rank rank);
  Target target_of(const CommOp& op, Rank rank);
  void collect_message(const CommOp& op, std::uint32_t pair, std::uint32_t waited_at);
  static void collect_collective(const CommOp& op, Group& group, Rank rank, std::uint32_t position,
                                 std::uint32_t waited_at);
  std::optional<std::string> pairs_mismatch() const;
  std::optional<std::string> groups_mismatch() const;
  void match_messages();
  void add_series();

  CallSchedule& schedule_;
  const Trace& trace_;
  std::vector<Messages> messages_;  // by pair
  Groups groups_;
};

}  // namespace commlens::formats
