#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "commlens/trace/trace.hpp"

namespace commlens {

/// What calls of several ranks must have in common to be matched in order: kind, group, communicator and
/// root; sends and receives of one ordered pair in one communicator share a channel.
struct Channel {
  CommKind kind = CommKind::other;  // of a pair: send
  Axis axis = Axis::unknown;
  std::int64_t root = -1;     // global rank; -1: none
  std::vector<Rank> members;  // in group order: of a pair source, destination
  CommunicatorId communicator{};
  bool is_pair() const { return kind == CommKind::send; }
  friend auto operator<=>(const Channel&, const Channel&) = default;
};

/// The calls of one member in a channel, in issue order within an iteration.
struct ChannelLane {
  Rank rank;
  const RankStream* stream = nullptr;
  std::span<const std::uint32_t> rows;  // of the stream's events, by iteration
};

/// Calls of a trace sorted into channels: 4 bytes a call.
class CallChannels {
 public:
  /// Calls that no channel takes, of all ranks.
  struct LeftOut {
    std::int64_t without_group = 0;
    std::int64_t unclassified = 0;
    std::int64_t without_times = 0;
  };
  using Iterations = std::optional<std::pair<Iteration, Iteration>>;

  CallChannels(const Trace& trace, const Iterations& iterations);

  std::size_t count() const { return channels_.size(); }
  const Channel& channel(std::size_t index) const { return *channels_[index].key; }
  /// One lane per member, in the order of the members; without rows where the trace has no such calls.
  std::vector<ChannelLane> lanes(std::size_t index) const;
  const LeftOut& left_out() const { return left_out_; }

 private:
  struct Lane {
    const RankStream* stream = nullptr;
    std::size_t first = 0;  // in rows_
    std::size_t count = 0;
  };
  struct Entry {
    const Channel* key = nullptr;  // in ids_
    std::vector<Lane> lanes;
  };
  class RankSorter;

  std::uint32_t id_of(Channel channel);

  std::map<Channel, std::uint32_t> ids_;
  std::vector<Entry> channels_;
  std::vector<std::uint32_t> rows_;
  LeftOut left_out_;
};

}  // namespace commlens
