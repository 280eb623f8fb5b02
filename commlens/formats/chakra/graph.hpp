#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "commlens/formats/chakra/messages.hpp"
#include "commlens/formats/io/schedule.hpp"
#include "commlens/formats/io/sink.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::chakra {

/// Which of a rank's nodes a new one has to wait for: those that have finished and are not already waited for
/// by another one that has.
class ChakraFrontier {
 public:
  struct Running {
    std::uint64_t id = 0;
    std::uint32_t waited_at = 0;  // the call that may rest on it; 0 for computing
    std::chrono::nanoseconds finished{};
    std::vector<std::uint64_t> after;  // what it waited for itself
  };

  void start(Running node) { running_.push_back(std::move(node)); }
  /// The call at `position`, or what begins before it at the time `now`, finds some finished.
  void settle(std::uint32_t position, std::chrono::nanoseconds now);
  const std::vector<std::uint64_t>& nodes() const { return finished_; }

 private:
  std::vector<Running> running_;
  std::vector<std::uint64_t> finished_;
};

/// Writes the graph of one rank (docs/formats/chakra.md): a node per call, and where the trace has times, one
/// per compute interval; each waits for what had finished when it started, sends excepted, which nothing
/// waits for.
class ChakraGraph {
 public:
  /// Bytes that the members put into an all_to_all together, by instance, where they differ.
  using UnevenSizes = std::unordered_map<std::uint32_t, std::int64_t>;

  ChakraGraph(const CallSchedule& schedule, const UnevenSizes& uneven, const TextSink& sink)
      : schedule_(schedule), trace_(schedule.trace()), uneven_(uneven), sink_(sink) {}
  void write(const RankStream& stream, Rank rank);
  /// With the waits and the computing of a prediction in the place of those that follow from times.
  void write_steps(const RankStream& stream, Rank rank, const StreamOrder& order,
                   const std::vector<ComputeWork>& works);

 private:
  struct Held {  // a collective that lets later calls pass
    ScheduledCall call;
    Node node;
  };

  void write_head();
  void write_groups(const RankStream& stream);
  Node node_of(const RankStream& stream, const ScheduledCall& call) const;
  void take_call(const RankStream& stream, const ScheduledCall& call);
  void write_or_hold(const RankStream& stream, Held call);
  void write_call(const RankStream& stream, const ScheduledCall& call, Node node);
  void write_compute(const ComputeInterval& interval, std::uint32_t position);
  void set_call(const CommOp& op, const ScheduledCall& call, Node& node) const;
  void set_own(const CommOp& op, const CommEvent& event, Node& node) const;
  void set_group(const CommOp& op, const ScheduledCall& call, Node& node) const;
  void set_times(std::chrono::nanoseconds started, std::chrono::nanoseconds finished, Node& node) const;
  std::int64_t comm_size(const CommOp& op, const ScheduledCall& call) const;
  std::string group_number(GroupId group, const std::vector<Rank>& members) const;
  void put(Node& node);

  const CallSchedule& schedule_;
  const Trace& trace_;
  const UnevenSizes& uneven_;
  const TextSink& sink_;
  Rank rank_;
  std::string block_;
  bool tells_rows_ = false;  // the nodes may not be in the order of the calls
  std::uint64_t next_id_ = 1;
  std::chrono::nanoseconds origin_{};  // earliest time: Chakra's are not negative
  ChakraFrontier frontier_;
  std::multimap<std::uint32_t, Held> held_;               // by a call that they let pass
  std::unordered_map<std::uint32_t, std::uint64_t> ids_;  // of calls, by position
};

}  // namespace commlens::formats::chakra
