#include "commlens/report/figures/matrix_figure.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/report/figures/labels.hpp"
#include "commlens/report/vocabulary.hpp"
#include "commlens/summary/node_share.hpp"

namespace commlens {
namespace {

constexpr std::int64_t k_most_blocks = 512;
constexpr std::size_t k_most_cells = 100'000;  // what a page holds and draws without delay
constexpr std::size_t k_large_group = 1024;    // an all_to_all of more is added block by block

/// Message bytes of one rank of a stream per kind and group.
using Messages = std::map<std::pair<CommKind, GroupId>, Bytes>;

Messages messages_of(const FigureInput& input, const RankStream& stream) {
  const Trace& trace = input.trace();
  std::vector<std::int64_t> calls(trace.ops().size(), 0);
  for (const CommEvent& event : stream.events) {
    calls[static_cast<std::size_t>(event.op)] += is_counted(input, event.iteration) ? 1 : 0;
  }
  Messages messages;
  for (std::size_t at = 0; at < calls.size(); ++at) {
    const CommOp& op = trace.ops()[at];
    if (calls[at] > 0 && route_of(op.kind) != Route::none) {
      Bytes& sum = messages[{op.kind, op.group}];
      sum = saturating_sum(sum, saturating_product(message_bytes(op), calls[at]));
    }
  }
  return messages;
}

/// Sending calls of all ranks whose destination is not known.
std::int64_t calls_without_group(const FigureInput& input) {
  const Trace& trace = input.trace();
  std::int64_t calls = 0;
  for (const RankStream& stream : trace.streams) {
    std::int64_t of_one = 0;
    for (const CommEvent& event : stream.events) {
      const CommOp& op = trace.op(event.op);
      const bool sends = route_of(op.kind) != Route::none && message_bytes(op).value > 0;
      const bool is_unknown = !trace.groups.knows_members(op.group) && trace.groups.size(op.group) != 1;
      of_one += sends && is_unknown && is_counted(input, event.iteration) ? 1 : 0;
    }
    calls = saturating_sum(calls, saturating_product(of_one, stream.ranks.count()));
  }
  return calls;
}

/// Adds the bytes sent by the calls of one stream to the cells.
class Traffic {
 public:
  Traffic(const GroupTable& groups, std::int64_t block) : groups_(groups), block_(block) {}

  void add(RankRange ranks, CommKind kind, GroupId group, Bytes message) {
    const std::int64_t size = groups_.size(group);
    const Bytes wire =
        wire_bytes(kind, std::min(message, Bytes{INT64_MAX / 2}), std::max<std::int64_t>(size, 1));
    if (size < 2 || wire.value == 0 || !groups_.knows_members(group)) {
      return;  // nothing is sent, or it is not known between whom
    }
    // A group looks the same to all its members, so each is resolved once for those of the class.
    std::vector<bool> done(static_cast<std::size_t>(ranks.count()), false);
    for (const Rank self : ranks) {
      if (done[static_cast<std::size_t>(ranks.index_of(self))]) {
        continue;
      }
      std::vector<Rank> members = groups_.members(group, self);
      if (route_of(kind) == Route::pair) {
        if (members.size() == 2) {
          put(self, members[1], wire.value);
        }
        continue;
      }
      std::sort(members.begin(), members.end());
      std::vector<std::size_t> senders;
      for (std::size_t at = 0; at < members.size(); ++at) {
        if (ranks.contains(members[at])) {
          done[static_cast<std::size_t>(ranks.index_of(members[at]))] = true;
          senders.push_back(at);
        }
      }
      if (route_of(kind) == Route::everyone && members.size() > k_large_group) {
        exchange_in_blocks(members, senders, wire.value);
        continue;
      }
      for (const std::size_t sender : senders) {
        send_from(members, sender, kind, wire.value);
      }
    }
  }

  TrafficCells take() { return std::move(cells_); }

 private:
  void send_from(const std::vector<Rank>& members, std::size_t sender, CommKind kind, std::int64_t wire) {
    const std::size_t size = members.size();
    if (route_of(kind) == Route::ring) {
      put(members[sender], members[(sender + 1) % size], wire);
      return;
    }
    const auto others = static_cast<std::int64_t>(size) - 1;
    const std::int64_t part = wire / others;
    const std::int64_t left_over = wire % others;
    for (std::int64_t step = 1; step <= others; ++step) {
      const Rank to = members[(sender + static_cast<std::size_t>(step)) % size];
      put(members[sender], to, part + (step <= left_over ? 1 : 0));
    }
  }

  /// As send_from for every sender, with the remaining bytes sent to the next member.
  void exchange_in_blocks(const std::vector<Rank>& members, const std::vector<std::size_t>& senders,
                          std::int64_t wire) {
    const auto others = static_cast<std::int64_t>(members.size()) - 1;
    std::map<std::int64_t, std::int64_t> members_of;
    for (const Rank member : members) {
      ++members_of[member.value / block_];
    }
    std::map<std::int64_t, std::int64_t> senders_of;
    for (const std::size_t sender : senders) {
      ++senders_of[members[sender].value / block_];
      put(members[sender], members[(sender + 1) % members.size()], wire % others);
    }
    for (const auto& [from, sending] : senders_of) {
      for (const auto& [to, receiving] : members_of) {
        const std::int64_t parts = saturating_product(sending, receiving - (from == to ? 1 : 0));
        put(Rank{from * block_}, Rank{to * block_}, saturating_product(parts, wire / others));
      }
    }
  }

  void put(Rank from, Rank to, std::int64_t bytes) {
    if (bytes > 0) {
      std::int64_t& cell = cells_[{from.value / block_, to.value / block_}];
      cell = saturating_sum(cell, bytes);
    }
  }

  const GroupTable& groups_;
  std::int64_t block_;
  TrafficCells cells_;
};

Figure matrix_of(const TrafficCells& cells, std::int64_t block, std::int64_t ranks,
                 const std::string& which) {
  Table table(
      columns({Column{"source_rank", block == 1 ? "from rank" : "from first rank"},
               Column{"destination_rank", block == 1 ? "to rank" : "to first rank"}, "wire_bytes_of_pair"}));
  std::vector<std::pair<TrafficCells::key_type, std::int64_t>> rows(cells.begin(), cells.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [pair, sent] : rows) {
    table.add({pair.first * block, pair.second * block, Cell(sent)});
  }
  Figure figure;
  figure.kind = FigureKind::matrix;
  figure.caption = fmt::format(
      "Wire bytes that each rank sends to each other, over {}. A send goes where it says. For collectives a "
      "bandwidth-optimal algorithm is assumed, because a trace does not record the one that ran: a ring "
      "through the members in ascending order for all_reduce, all_gather, reduce_scatter, broadcast and "
      "reduce (of these two the mean over the members), and equal parts to every other member for "
      "all_to_all. "
      "Pairs that exchange nothing are skipped; those that exchange most come first.",
      which);
  figure.columns = figure_columns(table);
  figure.options = {{"source", std::string("source_rank")},
                    {"destination", std::string("destination_rank")},
                    {"toggles", std::vector<std::string>{"wire_bytes_of_pair"}},
                    {"ranks", ranks},
                    {"block", block}};
  figure.formulas = {"wire-bytes", "matrix"};
  if (block > 1) {
    figure.notes.push_back(fmt::format(
        "{} ranks are too many for one row each: a row and a column stand for {} consecutive ranks, "
        "named by their first; bytes inside such a block are on the diagonal.",
        with_commas(ranks), block));
  }
  return figure;
}

}  // namespace

std::int64_t ranks_per_block(std::int64_t ranks, std::int64_t ranks_per_node) {
  if (ranks <= k_most_blocks) {
    return 1;
  }
  std::int64_t block = std::max<std::int64_t>(ranks_per_node, 1);
  while (ceil_div(ranks, block) > k_most_blocks) {
    block *= 2;
  }
  return block;
}

TrafficCells traffic_cells(const FigureInput& input, std::int64_t block) {
  Traffic traffic(input.trace().groups, block);
  for (const RankStream& stream : input.trace().streams) {
    for (const auto& [key, message] : messages_of(input, stream)) {
      traffic.add(stream.ranks, key.first, key.second, message);
    }
  }
  return traffic.take();
}

FigureResult matrix_figure(const FigureInput& input) {
  const Trace& trace = input.trace();
  if (is_printed_log(trace)) {
    return no_figure("a printed log does not say which ranks a call connects");
  }
  std::int64_t ranks = job_ranks(trace);
  std::int64_t block = ranks_per_block(ranks, input.ranks_per_node);
  TrafficCells cells = traffic_cells(input, block);
  while (cells.size() > k_most_cells) {
    block *= 2;
    TrafficCells merged;
    for (const auto& [pair, bytes] : cells) {
      std::int64_t& cell = merged[{pair.first / 2, pair.second / 2}];
      cell = saturating_sum(cell, bytes);
    }
    cells = std::move(merged);
  }
  const std::int64_t unknown = calls_without_group(input);
  if (cells.empty()) {
    return no_figure(unknown > 0 ? "the trace does not say between which ranks its calls are"
                                 : "no rank sends anything to another");
  }
  for (const auto& [pair, bytes] : cells) {  // members that have no stream of their own
    ranks = std::max({ranks, pair.first * block + 1, pair.second * block + 1});
  }
  Figure figure = matrix_of(cells, block, ranks, counted_iterations(input));
  if (unknown > 0) {
    figure.notes.push_back(fmt::format("Not shown: {} of which the trace does not say between which ranks.",
                                       counted(unknown, "calls")));
  }
  return figure;
}

}  // namespace commlens
