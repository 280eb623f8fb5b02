#include "commlens/summary/call_channels.hpp"

#include <algorithm>
#include <utility>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

bool selects(const CallChannels::Iterations& iterations, Iteration iteration) {
  return !iterations || (iteration >= iterations->first && iteration <= iterations->second);
}

bool is_matched_kind(CommKind kind) { return kind != CommKind::other; }

Channel channel_of(const Trace& trace, const CommOp& op, Rank rank) {
  Channel channel;
  channel.kind = op.kind == CommKind::recv ? CommKind::send : op.kind;
  channel.axis = trace.groups.axis(op.group);
  channel.members = trace.groups.members(op.group, rank);
  channel.communicator = trace.groups.communicator(op.group);
  if (op.root && op.root->value >= 0 && op.root->value < std::ssize(channel.members)) {
    channel.root = channel.members[static_cast<std::size_t>(op.root->value)].value;
  }
  return channel;
}

/// The place of a rank's call among the lanes of its channel; nothing when the group does not name the rank.
std::optional<std::size_t> position_of(const Channel& channel, CommKind kind, Rank rank) {
  const std::vector<Rank>& members = channel.members;
  if (channel.is_pair()) {
    const std::size_t side = kind == CommKind::send ? 0 : 1;
    return members.size() == 2 && members[side] == rank ? std::optional(side) : std::nullopt;
  }
  const auto found = std::find(members.begin(), members.end(), rank);
  return found == members.end()
             ? std::nullopt
             : std::optional<std::size_t>(static_cast<std::size_t>(found - members.begin()));
}

bool waits_for_nobody(const Channel& channel) {
  return channel.members.size() == 1 || (channel.is_pair() && channel.members.size() == 2 &&
                                         channel.members.front() == channel.members.back());
}

}  // namespace

/// The calls of one rank on their way into channels: counted first, then placed.
class CallChannels::RankSorter {
 public:
  RankSorter(CallChannels& channels, const Trace& trace, const RankStream& stream, Rank rank)
      : channels_(channels), trace_(trace), stream_(stream), rank_(rank), routes_(trace.ops().size()) {}

  void sort(const Iterations& iterations) {
    count(iterations);
    reserve();
    place(iterations);
    order();
  }

 private:
  enum class Fate : std::uint8_t { unknown, taken, alone, without_group, unclassified };
  struct Route {
    Fate fate = Fate::unknown;
    std::uint32_t lane = 0;  // row in lanes_
  };
  struct LocalLane {
    std::uint32_t channel = 0;
    std::size_t position = 0;
    std::size_t next = 0;  // where the next call goes; while counting: how many there are
  };

  Route route_of(const CommOp& op) {
    if (!is_matched_kind(op.kind)) {
      return {Fate::unclassified};
    }
    Channel channel = channel_of(trace_, op, rank_);
    if (waits_for_nobody(channel)) {
      return {Fate::alone};
    }
    const std::optional<std::size_t> position = position_of(channel, op.kind, rank_);
    if (!position) {
      return {Fate::without_group};
    }
    const std::uint32_t id = channels_.id_of(std::move(channel));
    const auto [found, is_new] =
        known_.try_emplace({id, *position}, static_cast<std::uint32_t>(lanes_.size()));
    if (is_new) {
      lanes_.push_back({id, *position});
    }
    return {Fate::taken, found->second};
  }

  void count(const Iterations& iterations) {
    for (const CommEvent& event : stream_.events) {
      if (!selects(iterations, event.iteration)) {
        continue;
      }
      Route& route = routes_[static_cast<std::size_t>(event.op)];
      if (route.fate == Fate::unknown) {
        route = route_of(trace_.op(event.op));
      }
      channels_.left_out_.without_group += route.fate == Fate::without_group ? 1 : 0;
      channels_.left_out_.unclassified += route.fate == Fate::unclassified ? 1 : 0;
      if (route.fate == Fate::taken) {
        ++lanes_[route.lane].next;
      }
    }
  }

  void reserve() {
    std::size_t end = channels_.rows_.size();
    for (LocalLane& lane : lanes_) {
      channels_.channels_[lane.channel].lanes[lane.position] = {&stream_, end, lane.next};
      end += std::exchange(lane.next, end);
    }
    channels_.rows_.resize(end);
  }

  void place(const Iterations& iterations) {
    for (std::size_t row = 0; row < stream_.events.size(); ++row) {
      const CommEvent& event = stream_.events[row];
      const Route& route = routes_[static_cast<std::size_t>(event.op)];
      if (route.fate == Fate::taken && selects(iterations, event.iteration)) {
        channels_.rows_[lanes_[route.lane].next++] = static_cast<std::uint32_t>(row);
      }
    }
  }

  /// Most ranks go from one iteration to the next; where one does not, its calls are put so.
  void order() {
    const auto earlier = [&](std::uint32_t a, std::uint32_t b) {
      return stream_.events[a].iteration < stream_.events[b].iteration;
    };
    for (const LocalLane& local : lanes_) {
      const Lane& lane = channels_.channels_[local.channel].lanes[local.position];
      const auto first = channels_.rows_.begin() + static_cast<std::ptrdiff_t>(lane.first);
      const auto end = first + static_cast<std::ptrdiff_t>(lane.count);
      if (!std::is_sorted(first, end, earlier)) {
        std::stable_sort(first, end, earlier);
      }
    }
  }

  CallChannels& channels_;
  const Trace& trace_;
  const RankStream& stream_;
  Rank rank_;
  std::vector<Route> routes_;  // by op
  std::vector<LocalLane> lanes_;
  std::map<std::pair<std::uint32_t, std::size_t>, std::uint32_t> known_;
};

CallChannels::CallChannels(const Trace& trace, const Iterations& iterations) {
  for (const RankStream& stream : trace.streams) {
    COMMLENS_CHECK(stream.events.size() < UINT32_MAX,
                   "rows have 32 bits: such a trace would not fit in memory");
    if (stream.times.size() != stream.events.size()) {
      left_out_.without_times +=
          stream.ranks.count() *
          std::count_if(stream.events.begin(), stream.events.end(),
                        [&](const CommEvent& event) { return selects(iterations, event.iteration); });
      continue;
    }
    for (Rank rank = stream.ranks.first; rank <= stream.ranks.last; ++rank.value) {
      RankSorter(*this, trace, stream, rank).sort(iterations);
    }
  }
}

std::uint32_t CallChannels::id_of(Channel channel) {
  const std::size_t members = channel.members.size();
  const auto [found, is_new] =
      ids_.try_emplace(std::move(channel), static_cast<std::uint32_t>(channels_.size()));
  if (is_new) {
    channels_.push_back({&found->first, std::vector<Lane>(members)});
  }
  return found->second;
}

std::vector<ChannelLane> CallChannels::lanes(std::size_t index) const {
  std::vector<ChannelLane> lanes;
  const Entry& entry = channels_[index];
  for (std::size_t position = 0; position < entry.lanes.size(); ++position) {
    const Lane& lane = entry.lanes[position];
    lanes.push_back(
        {entry.key->members[position], lane.stream, std::span(rows_).subspan(lane.first, lane.count)});
  }
  return lanes;
}

}  // namespace commlens
