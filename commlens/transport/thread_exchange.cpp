#include "commlens/transport/thread_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "commlens/transport/reduce_kernels.hpp"

namespace commlens {
namespace {

// Small enough to stay in the second-level cache and to share the work evenly, large enough that taking a
// piece costs nothing beside it.
constexpr Bytes k_piece{64 << 10};

// Outputs of an all_gather that are larger together do not stay in caches: a piece is then read from memory
// once and written to all of them.
constexpr Bytes k_gathered_apart{4 << 20};

}  // namespace

Exchange::Exchange(std::size_t members) : inputs_(members), outputs_(members) {}

void Exchange::post(std::size_t member, const CommCall& call, bool is_first) {
  if (is_first) {
    call_ = call;
    with_parts_.clear();
  }
  if (has_parts(call)) {
    with_parts_.push_back({member, call});
  }
  inputs_[member] = static_cast<const std::byte*>(call.input_buffer);
  outputs_[member] = static_cast<std::byte*>(call.output_buffer);
}

std::int64_t Exchange::cut(std::size_t members) {
  members_ = members;
  moves_.clear();
  if (has_parts(call_) || call_.kind == CommKind::other) {
    list_moves();
    std::int64_t whole = 0;
    for (const Move& move : moves_) {
      whole += move.count;
    }
    pieces_ = static_cast<std::int64_t>(moves_.size());
    if (Elements{whole} * call_.dtype <= k_piece) {
      pieces_ = std::min<std::int64_t>(pieces_, 1);
    }
    return pieces_;
  }
  return cut_rows();
}

std::int64_t Exchange::cut_rows() {
  const auto ranks = static_cast<std::int64_t>(members_);
  switch (call_.kind) {
    case CommKind::all_gather:
      rows_ = call_.output * call_.dtype * ranks < k_gathered_apart ? ranks : 1;
      row_count_ = call_.output.value;
      break;
    case CommKind::reduce_scatter:
      rows_ = ranks;
      row_count_ = call_.output.value;
      break;
    case CommKind::all_to_all:
      rows_ = ranks;
      row_count_ = call_.input.value / ranks;
      break;
    default:
      rows_ = 1;
      row_count_ = std::max(call_.input.value, call_.output.value);
  }
  const Elements whole{rows_ * row_count_};
  if (whole.value == 0) {
    pieces_ = 0;
  } else if (whole * call_.dtype <= k_piece) {
    pieces_ = 1;
  } else {
    row_pieces_ = ceil_div(row_count_, k_piece.value / size_of(call_.dtype));
    pieces_ = rows_ * row_pieces_;
  }
  return pieces_;
}

/// By destination, as the members own them.
void Exchange::list_moves() {
  const auto root = static_cast<std::size_t>(call_.peer.value);
  if (call_.kind == CommKind::other) {
    const bool gathers = call_.other == OtherCall::gather;
    const std::span<const Elements> parts = gathers ? call_.output_parts : call_.input_parts;
    std::int64_t at_root = 0;
    for (std::size_t member = 0; member < members_; ++member) {
      const std::int64_t part =
          (parts.empty() ? (gathers ? call_.input : call_.output) : parts[member]).value;
      add_move(gathers ? Move{member, 0, root, at_root, part} : Move{root, at_root, member, 0, part});
      at_root += part;
    }
    return;
  }
  // with_parts_ is in the order in which the members posted.
  std::vector<const CommCall*> calls(members_);
  for (const PostedCall& posted : with_parts_) {
    calls[posted.member] = &posted.call;
  }
  std::vector<std::int64_t> sent(members_);  // elements of each input that have a destination
  for (std::size_t to = 0; to < members_; ++to) {
    if (call_.kind == CommKind::reduce_scatter) {
      const std::int64_t part = call_.input_parts[to].value;
      add_move({0, sent[0], to, 0, part});
      sent[0] += part;
      continue;
    }
    std::int64_t received = 0;
    for (std::size_t from = 0; from < members_; ++from) {
      const std::int64_t part = calls[to]->output_parts[from].value;
      add_move({from, sent[from], to, received, part});
      sent[from] += call_.kind == CommKind::all_to_all ? part : 0;
      received += part;
    }
  }
}

/// In pieces.
void Exchange::add_move(const Move& move) {
  const std::int64_t most = k_piece.value / size_of(call_.dtype);
  for (std::int64_t done = 0; done < move.count; done += most) {
    moves_.push_back({.source = move.source,
                      .from = move.from + done,
                      .destination = move.destination,
                      .to = move.to + done,
                      .count = std::min(most, move.count - done)});
  }
}

void Exchange::perform_move(const Move& move) const {
  if (call_.kind == CommKind::reduce_scatter) {
    combine(call_.dtype, call_.reduction, std::span(inputs_.data(), members_),
            std::span(&outputs_[move.destination], 1), {move.from, move.to, move.count});
  } else {
    copy(move.source, move.from, move.destination, move.to, move.count);
  }
}

void Exchange::perform(std::int64_t piece) const {
  if (!moves_.empty()) {
    const bool is_all = pieces_ == 1;
    const auto first = static_cast<std::size_t>(piece);
    const std::span<const Move> moves(moves_);
    for (const Move& move : is_all ? moves : moves.subspan(first, 1)) {
      perform_move(move);
    }
    return;
  }
  if (pieces_ == 1) {
    for (std::int64_t row = 0; row < rows_; ++row) {
      perform_part(row, 0, row_count_);
    }
    return;
  }
  const std::int64_t most = k_piece.value / size_of(call_.dtype);
  const std::int64_t first = piece % row_pieces_ * most;
  perform_part(piece / row_pieces_, first, std::min(most, row_count_ - first));
}

void Exchange::perform_part(std::int64_t row, std::int64_t first, std::int64_t count) const {
  const std::span<const std::byte* const> inputs(inputs_.data(), members_);
  const std::span<std::byte* const> outputs(outputs_.data(), members_);
  const auto place = static_cast<std::size_t>(row);
  const auto root = static_cast<std::size_t>(call_.peer.value);
  const std::int64_t in_whole = row * row_count_ + first;
  switch (call_.kind) {
    case CommKind::all_reduce:
      return combine(call_.dtype, call_.reduction, inputs, outputs, {first, first, count});
    case CommKind::reduce:
      return combine(call_.dtype, call_.reduction, inputs, outputs.subspan(root, 1), {first, first, count});
    case CommKind::reduce_scatter:
      return combine(call_.dtype, call_.reduction, inputs, outputs.subspan(place, 1),
                     {in_whole, first, count});
    case CommKind::all_gather:
      for (std::size_t member = 0; member < members_; ++member) {
        if (rows_ == 1 || member == place) {
          gather(member, first, count);
        }
      }
      return;
    case CommKind::all_to_all:
      for (std::size_t member = 0; member < members_; ++member) {
        copy(member, in_whole, place, static_cast<std::int64_t>(member) * row_count_ + first, count);
      }
      return;
    case CommKind::broadcast:
      for (std::size_t member = 0; member < members_; ++member) {
        copy(root, first, member, first, count);
      }
      return;
    case CommKind::send:
    case CommKind::recv:
      return copy(0, first, 1, first, count);
    case CommKind::barrier:
    case CommKind::other:
      return;
  }
}

/// Elements [first, first + count) of what all_gather writes to one output: parts of several inputs.
void Exchange::gather(std::size_t destination, std::int64_t first, std::int64_t count) const {
  const std::int64_t shard = call_.input.value;
  for (std::int64_t at = first; at < first + count;) {
    const std::int64_t within = at % shard;
    const std::int64_t here = std::min(shard - within, first + count - at);
    copy(static_cast<std::size_t>(at / shard), within, destination, at, here);
    at += here;
  }
}

void Exchange::copy(std::size_t source, std::int64_t from, std::size_t destination, std::int64_t to,
                    std::int64_t count) const {
  const std::byte* read = inputs_[source] + (Elements{from} * call_.dtype).value;
  std::byte* written = outputs_[destination] + (Elements{to} * call_.dtype).value;
  if (read != written && count > 0) {
    std::memcpy(written, read, static_cast<std::size_t>((Elements{count} * call_.dtype).value));
  }
}

}  // namespace commlens
