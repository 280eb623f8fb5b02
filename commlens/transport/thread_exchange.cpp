#include "commlens/transport/thread_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "commlens/transport/reduce_kernels.hpp"

namespace commlens {
namespace {

// Small enough to stay in the second-level cache and to share the work evenly, large enough that taking a
// piece costs nothing beside it.
constexpr Bytes k_piece{64 << 10};

// Outputs of an all_gather that are larger together do not stay in caches: a piece is then read from memory
// once and written to all of them.
constexpr Bytes k_gathered_apart{4 << 20};

bool combines(CommKind kind) {
  return kind == CommKind::all_reduce || kind == CommKind::reduce || kind == CommKind::reduce_scatter;
}

bool has_peer(CommKind kind) { return has_root(kind) || is_point_to_point(kind); }

/// Whether the sizes of a call fit its kind (communicator.hpp).
bool sizes_fit(const CommCall& call, std::int64_t ranks) {
  const std::int64_t input = call.input.value;
  const std::int64_t output = call.output.value;
  if (input < 0 || output < 0) {
    return false;
  }
  switch (call.kind) {
    case CommKind::all_reduce:
    case CommKind::broadcast:
    case CommKind::reduce:
      return input == output;
    case CommKind::all_gather:
      return output == input * ranks;
    case CommKind::reduce_scatter:
      return input == output * ranks;
    case CommKind::all_to_all:
      return input == output && input % ranks == 0;
    case CommKind::send:
      return output == 0;
    case CommKind::recv:
      return input == 0;
    case CommKind::barrier:
      return input == 0 && output == 0;
    case CommKind::other:
      break;
  }
  return false;
}

/// Whether a buffer that this rank's part of the call reads or writes is missing.
bool lacks_buffer(const CommCall& call, GroupRank self) {
  const bool reads = call.kind != CommKind::broadcast || self == call.peer;
  const bool writes = call.kind != CommKind::reduce || self == call.peer;
  return (reads && call.input.value > 0 && call.input_buffer == nullptr) ||
         (writes && call.output.value > 0 && call.output_buffer == nullptr);
}

}  // namespace

std::string fault_of(const CommCall& call, GroupRank self, std::int64_t ranks) {
  if (call.kind == CommKind::other) {
    return "a communicator cannot make a call of kind other";
  }
  if (!sizes_fit(call, ranks)) {
    return fmt::format("{} over {} ranks cannot have {} elements in and {} out", name_of(call.kind), ranks,
                       call.input.value, call.output.value);
  }
  if (has_peer(call.kind) && (call.peer.value < 0 || call.peer.value >= ranks)) {
    return fmt::format("{} names rank {} of a group of {}", to_text(call), call.peer.value, ranks);
  }
  if (is_point_to_point(call.kind) && call.peer == self) {
    return fmt::format("{} names its own rank", to_text(call));
  }
  if (combines(call.kind) && !can_combine(call.dtype)) {
    return fmt::format("{}: elements of this type cannot be combined", to_text(call));
  }
  if (lacks_buffer(call, self)) {
    return fmt::format("{} lacks a buffer", to_text(call));
  }
  return {};
}

bool agree(const CommCall& left, const CommCall& right) {
  if (is_point_to_point(left.kind)) {
    return left.dtype == right.dtype && left.input + left.output == right.input + right.output;
  }
  if (left.kind != right.kind) {
    return false;
  }
  return left.kind == CommKind::barrier ||
         (left.dtype == right.dtype && left.input == right.input && left.output == right.output &&
          (!combines(left.kind) || left.reduction == right.reduction) &&
          (!has_root(left.kind) || left.peer == right.peer));
}

std::string to_text(const CommCall& call) {
  if (call.kind == CommKind::barrier) {
    return "barrier";
  }
  const Elements size = is_point_to_point(call.kind) ? call.input + call.output : call.input;
  std::string text = fmt::format("{} of {} {}", name_of(call.kind), size.value, name_of(call.dtype));
  if (combines(call.kind) && call.reduction == ReduceOp::max) {
    text += " (max)";
  }
  if (has_root(call.kind)) {
    text += fmt::format(" (root {})", call.peer.value);
  }
  if (!call.tag.empty()) {
    text += fmt::format(" \"{}\"", call.tag);
  }
  return text;
}

Exchange::Exchange(std::size_t members) : inputs_(members), outputs_(members) {}

void Exchange::post(std::size_t member, const CommCall& call, bool is_first) {
  if (is_first) {
    call_ = call;
  }
  inputs_[member] = static_cast<const std::byte*>(call.input_buffer);
  outputs_[member] = static_cast<std::byte*>(call.output_buffer);
}

std::int64_t Exchange::cut(std::size_t members) {
  members_ = members;
  const auto ranks = static_cast<std::int64_t>(members);
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

void Exchange::perform(std::int64_t piece) const {
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
