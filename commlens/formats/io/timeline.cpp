#include "commlens/formats/io/timeline.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "commlens/comm/volume.hpp"

namespace commlens::formats {
namespace {

constexpr std::uint64_t k_unit_ns = 1000;  // of a call whose time is not known

using Slices = std::vector<TimelineSlice>;

/// The communicator, ordered pair of ranks, element type and size that sends and receives are matched by.
using MessageKey = std::tuple<CommunicatorId, std::int64_t, std::int64_t, DType, std::int64_t>;

std::optional<MessageKey> message_of(const Trace& trace, const TimelineSlice& slice) {
  if (slice.is_compute) {
    return std::nullopt;
  }
  const CommOp& op = trace.op(trace.streams[slice.stream].events[slice.row].op);
  if (!is_point_to_point(op.kind)) {
    return std::nullopt;
  }
  const std::vector<Rank> pair = trace.groups.members(op.group, slice.rank);
  if (pair.size() != 2) {
    return std::nullopt;
  }
  return MessageKey{trace.groups.communicator(op.group), pair[0].value, pair[1].value, op.dtype,
                    message_bytes(op).value};
}

bool sends(const Trace& trace, const TimelineSlice& slice) {
  return trace.op(trace.streams[slice.stream].events[slice.row].op).kind == CommKind::send;
}

/// Rows of a send and of the receive that takes its message.
using Message = std::pair<std::size_t, std::size_t>;

/// `slices` are in issue order per rank. Counts in `unmatched` what has no other side.
std::vector<Message> matched(const Trace& trace, const Slices& slices, std::int64_t& unmatched) {
  struct Sides {
    std::vector<std::size_t> sends;
    std::vector<std::size_t> receives;
  };
  std::map<MessageKey, Sides> by_key;
  for (std::size_t row = 0; row < slices.size(); ++row) {
    if (const std::optional<MessageKey> key = message_of(trace, slices[row])) {
      Sides& sides = by_key[*key];
      (sends(trace, slices[row]) ? sides.sends : sides.receives).push_back(row);
    }
  }
  std::vector<Message> messages;
  for (const auto& [key, sides] : by_key) {
    const std::size_t both = std::min(sides.sends.size(), sides.receives.size());
    for (std::size_t k = 0; k < both; ++k) {
      messages.emplace_back(sides.sends[k], sides.receives[k]);
    }
    unmatched += static_cast<std::int64_t>(sides.sends.size() + sides.receives.size() - 2 * both);
  }
  std::sort(messages.begin(), messages.end());
  return messages;
}

/// Whether every stream that has calls has their times, and the earliest of all times.
std::optional<std::int64_t> origin_of(const Trace& trace) {
  std::int64_t origin = INT64_MAX;
  for (const RankStream& stream : trace.streams) {
    if (stream.times.empty() && !stream.events.empty()) {
      return std::nullopt;
    }
    for (const Times& times : stream.times) {
      origin = std::min(origin, times.started.count());
    }
    if (!stream.compute.empty()) {
      origin = std::min(origin, stream.compute.front().started.count());
    }
  }
  return origin == INT64_MAX ? 0 : origin;
}

std::uint64_t since(std::int64_t origin, std::chrono::nanoseconds time) {
  return static_cast<std::uint64_t>(time.count()) - static_cast<std::uint64_t>(origin);  // may pass 2^63
}

void append_rank(const Trace& trace, std::uint32_t row, Rank rank, Timeline& timeline) {
  const RankStream& stream = trace.streams[row];
  for (std::uint32_t call = 0; call < stream.events.size(); ++call) {
    TimelineSlice slice{.rank = rank, .stream = row, .row = call};
    if (timeline.has_times) {
      slice.started = since(timeline.origin_ns, stream.times[call].started);
      slice.finished = since(timeline.origin_ns, stream.times[call].finished);
    }
    timeline.slices.push_back(slice);
  }
  if (!timeline.has_times) {
    timeline.compute_left_out += static_cast<std::int64_t>(stream.compute.size());
    return;
  }
  for (std::uint32_t interval = 0; interval < stream.compute.size(); ++interval) {
    timeline.slices.push_back({.rank = rank,
                               .stream = row,
                               .row = interval,
                               .is_compute = true,
                               .started = since(timeline.origin_ns, stream.compute[interval].started),
                               .finished = since(timeline.origin_ns, stream.compute[interval].finished)});
  }
}

/// Calls of a rank one after the other; a receive does not start before its send has, unless the order of
/// the calls makes that impossible.
void lay_in_issue_order(Slices& slices, const std::vector<Message>& messages) {
  constexpr std::size_t none = SIZE_MAX;
  std::vector<std::size_t> send_of(slices.size(), none);
  for (const auto& [send, receive] : messages) {
    send_of[receive] = send;
  }
  struct Position {
    std::size_t next;
    std::size_t end;
    std::uint64_t free_from = 0;
  };
  std::vector<Position> ranks;
  for (std::size_t row = 0; row < slices.size(); ++row) {
    if (row == 0 || slices[row].rank != slices[row - 1].rank) {
      ranks.push_back({row, row});
    }
    ranks.back().end = row + 1;
  }
  std::vector<bool> is_placed(slices.size(), false);
  const auto lay_next = [&](Position& at) {
    const std::size_t send = send_of[at.next];
    const std::uint64_t sent = send != none && is_placed[send] ? slices[send].started : 0;
    slices[at.next].started = std::max(at.free_from, sent);
    slices[at.next].finished = at.free_from = slices[at.next].started + k_unit_ns;
    is_placed[at.next++] = true;
  };
  for (std::size_t placed = 0; placed < slices.size();) {
    const std::size_t before = placed;
    for (Position& at : ranks) {
      for (; at.next < at.end && (send_of[at.next] == none || is_placed[send_of[at.next]]); ++placed) {
        lay_next(at);
      }
    }
    if (placed == before) {  // all wait for each other
      lay_next(
          *std::find_if(ranks.begin(), ranks.end(), [](const Position& at) { return at.next < at.end; }));
      ++placed;
    }
  }
}

/// Gives each message that can be drawn its arrow: it leaves when the send starts, and arrives within the
/// receive, not before.
void draw_arrows(Timeline& timeline, const std::vector<Message>& messages) {
  std::uint64_t arrow = 0;
  for (const auto& [send_row, receive_row] : messages) {
    TimelineSlice& send = timeline.slices[send_row];
    TimelineSlice& receive = timeline.slices[receive_row];
    if (receive.finished < send.started) {
      ++timeline.backward;
      continue;
    }
    send.arrow = receive.arrow = ++arrow;
    send.arrow_at = send.started;
    receive.arrow_at = std::max(send.started, receive.started);
  }
}

/// The axis of a track of calls; nullopt, which is before all axes, of computing.
using TrackKind = std::optional<Axis>;

TrackKind kind_of_track(const Trace& trace, const TimelineSlice& slice) {
  if (slice.is_compute) {
    return std::nullopt;
  }
  return trace.groups.axis(trace.op(trace.streams[slice.stream].events[slice.row].op).group);
}

std::string name_of_track(const TrackKind& kind, std::size_t lane) {
  const std::string name = !kind                    ? "computing"
                           : *kind == Axis::unknown ? "calls"
                                                    : std::string(name_of(*kind));
  return lane == 0 ? name : fmt::format("{} {}", name, lane + 1);
}

/// `slices` ascend by start.
void assign_tracks(const Trace& trace, Timeline& timeline) {
  std::map<std::pair<Rank, TrackKind>, std::vector<std::uint64_t>> lanes;  // when each is free again
  std::vector<std::size_t> lane_of;
  lane_of.reserve(timeline.slices.size());
  for (const TimelineSlice& slice : timeline.slices) {
    std::vector<std::uint64_t>& free_from = lanes[{slice.rank, kind_of_track(trace, slice)}];
    const auto found = std::find_if(free_from.begin(), free_from.end(),
                                    [&](std::uint64_t time) { return time <= slice.started; });
    const auto lane = static_cast<std::size_t>(found - free_from.begin());
    if (found == free_from.end()) {
      free_from.push_back(0);
    }
    // No two starts at once, and none where an arrow arrives at the very end: a viewer binds arrows to what
    // is open at their time.
    free_from[lane] =
        std::max({slice.finished, slice.started + 1, slice.arrow != 0 ? slice.arrow_at + 1 : 0});
    lane_of.push_back(lane);
  }
  std::map<std::pair<Rank, TrackKind>, std::uint32_t> first_track;
  for (const auto& [key, free_from] : lanes) {
    first_track[key] = static_cast<std::uint32_t>(timeline.tracks.size());
    for (std::size_t lane = 0; lane < free_from.size(); ++lane) {
      timeline.tracks.push_back({key.first, name_of_track(key.second, lane)});
    }
  }
  for (std::size_t row = 0; row < timeline.slices.size(); ++row) {
    TimelineSlice& slice = timeline.slices[row];
    slice.track =
        first_track[{slice.rank, kind_of_track(trace, slice)}] + static_cast<std::uint32_t>(lane_of[row]);
  }
}

}  // namespace

double slices_of(const Trace& trace, std::optional<Rank> only) {
  double slices = 0;
  for (const RankStream& stream : trace.streams) {
    const std::int64_t ranks = !only ? stream.ranks.count() : stream.ranks.contains(*only) ? 1 : 0;
    slices += static_cast<double>(stream.events.size() + stream.compute.size()) * static_cast<double>(ranks);
  }
  return slices;
}

Timeline timeline_of(const Trace& trace, std::optional<Rank> only) {
  Timeline timeline;
  const std::optional<std::int64_t> origin = origin_of(trace);
  timeline.has_times = origin.has_value();
  timeline.origin_ns = origin.value_or(0);
  for (std::uint32_t row = 0; row < trace.streams.size(); ++row) {
    for (const Rank rank : selected_ranks(trace.streams[row].ranks, only)) {
      append_rank(trace, row, rank, timeline);
    }
  }
  const std::vector<Message> messages = matched(trace, timeline.slices, timeline.unmatched);
  if (!timeline.has_times) {
    lay_in_issue_order(timeline.slices, messages);
  }
  draw_arrows(timeline, messages);
  std::stable_sort(timeline.slices.begin(), timeline.slices.end(),
                   [](const TimelineSlice& a, const TimelineSlice& b) {
                     return std::tie(a.started, a.rank) < std::tie(b.started, b.rank);
                   });
  assign_tracks(trace, timeline);
  return timeline;
}

}  // namespace commlens::formats
