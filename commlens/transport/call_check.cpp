#include "commlens/transport/call_check.hpp"

#include <algorithm>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "commlens/base/result.hpp"
#include "commlens/transport/reduce_kernels.hpp"

namespace commlens {
namespace {

bool names_a_peer(const CommCall& call) {
  return has_root(call.kind) || is_point_to_point(call.kind) || call.kind == CommKind::other;
}

/// Whether the sizes of a call of equal parts fit its kind (communicator.hpp).
bool sizes_fit(const CommCall& call, GroupRank self, std::int64_t ranks) {
  const std::int64_t input = call.input.value;
  const std::int64_t output = call.output.value;
  const std::int64_t parts_here = self == call.peer ? ranks : 0;  // of the root's buffer
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
      return call.other == OtherCall::gather ? output == input * parts_here : input == output * parts_here;
  }
  return false;
}

std::int64_t sum_of(std::span<const Elements> parts) {
  return std::accumulate(parts.begin(), parts.end(), std::int64_t{0},
                         [](std::int64_t sum, Elements part) { return sum + part.value; });
}

/// What is wrong with one table of parts; `whole` is the size of the buffer that they make up, -1: of no rank
/// but the root.
std::string table_fault(std::span<const Elements> parts, Elements whole, std::int64_t ranks,
                        std::string_view side) {
  if (static_cast<std::int64_t>(parts.size()) != ranks) {
    return fmt::format("it gives {} parts of its {} to {} ranks", parts.size(), side, ranks);
  }
  if (std::any_of(parts.begin(), parts.end(), [](Elements part) { return part.value < 0; })) {
    return fmt::format("a part of its {} has a negative size", side);
  }
  if (whole.value >= 0 && sum_of(parts) != whole.value) {
    return fmt::format("the parts of its {} have {} elements, the {} has {}", side, sum_of(parts), side,
                       whole.value);
  }
  return {};
}

/// What is wrong with the parts of a call that has some.
std::string parts_fault(const CommCall& call, GroupRank self, std::int64_t ranks) {
  const bool of_input = call.kind == CommKind::all_to_all || call.kind == CommKind::reduce_scatter ||
                        call.other == OtherCall::scatter;
  const bool of_output = call.kind == CommKind::all_to_all || call.kind == CommKind::all_gather ||
                         call.other == OtherCall::gather;
  const bool is_elsewhere = call.kind == CommKind::other && self != call.peer;  // the whole is at the root
  if (is_elsewhere && (of_input ? call.input : call.output).value != 0) {
    return "the whole is at its root alone";
  }
  if ((!of_input && !call.input_parts.empty()) || (!of_output && !call.output_parts.empty())) {
    return "calls of its kind have no such parts";
  }
  std::string fault =
      of_input ? table_fault(call.input_parts, is_elsewhere ? Elements{-1} : call.input, ranks, "input")
               : std::string();
  if (fault.empty() && of_output) {
    fault = table_fault(call.output_parts, is_elsewhere ? Elements{-1} : call.output, ranks, "output");
  }
  if (!fault.empty()) {
    return fault;
  }
  const auto own = static_cast<std::size_t>(self.value);
  const Elements sent = of_input ? call.input_parts[own] : call.input;
  const Elements received = of_output ? call.output_parts[own] : call.output;
  return sent == received
             ? std::string()
             : fmt::format("its own part has {} elements in and {} out", sent.value, received.value);
}

/// Whether a buffer that this rank's part of the call reads or writes is missing.
bool lacks_buffer(const CommCall& call, GroupRank self) {
  const bool reads = call.kind != CommKind::broadcast || self == call.peer;
  const bool writes = call.kind != CommKind::reduce || self == call.peer;
  return (reads && call.input.value > 0 && call.input_buffer == nullptr) ||
         (writes && call.output.value > 0 && call.output_buffer == nullptr);
}

/// What is wrong with the sizes of a call.
std::string size_fault(const CommCall& call, GroupRank self, std::int64_t ranks) {
  if (has_parts(call)) {
    const std::string fault = parts_fault(call, self, ranks);
    return fault.empty() ? fault : fmt::format("{}: {}", to_text(call), fault);
  }
  if (call.input.value < 0 || call.output.value < 0 || !sizes_fit(call, self, ranks)) {
    const std::string_view name = call.kind == CommKind::other ? name_of(call.other) : name_of(call.kind);
    return fmt::format("{} over {} ranks cannot have {} elements in and {} out", name, ranks,
                       call.input.value, call.output.value);
  }
  return {};
}

/// The size of a gather's or scatter's part, the same on all ranks unless they are given.
Elements part_of(const CommCall& call) { return call.other == OtherCall::gather ? call.input : call.output; }

}  // namespace

std::string_view name_of(OtherCall call) {
  switch (call) {
    case OtherCall::gather:
      return "gather";
    case OtherCall::scatter:
      return "scatter";
    case OtherCall::none:
      break;
  }
  return "other";
}

std::string fault_of(const CommCall& call, GroupRank self, std::int64_t ranks) {
  if (call.kind == CommKind::other && call.other == OtherCall::none) {
    return "a communicator cannot make a call of kind other that is neither gather nor scatter";
  }
  if (std::string fault = size_fault(call, self, ranks); !fault.empty()) {
    return fault;
  }
  if (names_a_peer(call) && (call.peer.value < 0 || call.peer.value >= ranks)) {
    return fmt::format("{} names rank {} of a group of {}", to_text(call), call.peer.value, ranks);
  }
  if (is_point_to_point(call.kind) && call.peer == self) {
    return fmt::format("{} names its own rank", to_text(call));
  }
  if (is_reducing(call.kind) && !can_combine(call.dtype)) {
    return fmt::format("{}: elements of this type cannot be combined", to_text(call));
  }
  if (is_reducing(call.kind) && call.reduction == ReduceOp::avg && !can_average(call.dtype)) {
    return fmt::format("{}: only floating-point numbers have an average here; take their sum", to_text(call));
  }
  if (lacks_buffer(call, self)) {
    return fmt::format("{} lacks a buffer", to_text(call));
  }
  return {};
}

void throw_fault_of(const CommCall& call, GroupRank self, std::int64_t ranks) {
  if (const std::string fault = fault_of(call, self, ranks); !fault.empty()) {
    throw SystemError(fault);
  }
}

bool agree(const CommCall& left, const CommCall& right) {
  if (is_point_to_point(left.kind)) {
    return left.dtype == right.dtype && left.input + left.output == right.input + right.output;
  }
  if (left.kind != right.kind) {
    return false;
  }
  if (left.kind == CommKind::barrier) {
    return true;
  }
  if (left.dtype != right.dtype || (is_reducing(left.kind) && left.reduction != right.reduction)) {
    return false;
  }
  if (left.kind == CommKind::other) {
    return left.other == right.other && left.peer == right.peer && has_parts(left) == has_parts(right) &&
           (has_parts(left) || part_of(left) == part_of(right));
  }
  if (has_parts(left) || has_parts(right)) {
    return has_parts(left) == has_parts(right);
  }
  return left.input == right.input && left.output == right.output &&
         (!has_root(left.kind) || left.peer == right.peer);
}

std::string parts_mismatch(const CommCall& left, Caller left_by, const CommCall& right, Caller right_by) {
  if (right_by.rank < left_by.rank) {
    return parts_mismatch(right, right_by, left, left_by);
  }
  const auto there = static_cast<std::size_t>(right_by.place.value);
  const auto here = static_cast<std::size_t>(left_by.place.value);
  if (left.kind == CommKind::all_to_all) {
    constexpr std::string_view k_text = "rank {} sends {} {} to rank {}, which expects {}, in an all_to_all";
    if (left.input_parts[there] != right.output_parts[here]) {
      return fmt::format(k_text, left_by.rank.value, left.input_parts[there].value, name_of(left.dtype),
                         right_by.rank.value, right.output_parts[here].value);
    }
    if (right.input_parts[here] != left.output_parts[there]) {
      return fmt::format(k_text, right_by.rank.value, right.input_parts[here].value, name_of(left.dtype),
                         left_by.rank.value, left.output_parts[there].value);
    }
    return {};
  }
  const bool gathers = left.kind == CommKind::all_gather || left.other == OtherCall::gather;
  const std::string_view name = left.kind == CommKind::other ? name_of(left.other) : name_of(left.kind);
  const std::span<const Elements> first = gathers ? left.output_parts : left.input_parts;
  const std::span<const Elements> second = gathers ? right.output_parts : right.input_parts;
  for (std::size_t part = 0; part < first.size(); ++part) {
    if (first[part] != second[part]) {
      return fmt::format("rank {} gives part {} of {} {} {} {}, rank {} gives it {}", left_by.rank.value,
                         part, name.starts_with('a') ? "an" : "a", name, first[part].value,
                         name_of(left.dtype), right_by.rank.value, second[part].value);
    }
  }
  return {};
}

std::string to_text(const CommCall& call) {
  if (call.kind == CommKind::barrier) {
    return "barrier";
  }
  const bool is_other = call.kind == CommKind::other;
  const bool has_two_sizes = is_point_to_point(call.kind);
  const Elements one_size = is_other ? part_of(call) : call.input;
  std::string text =
      fmt::format("{} of {} {}", is_other ? name_of(call.other) : name_of(call.kind),
                  (has_two_sizes ? call.input + call.output : one_size).value, name_of(call.dtype));
  if (has_parts(call)) {
    text += " in unequal parts";
  }
  if (is_reducing(call.kind) && call.reduction != ReduceOp::sum) {
    text += call.reduction == ReduceOp::max ? " (max)" : " (avg)";
  }
  if (has_root(call.kind) || is_other) {
    text += fmt::format(" (root {})", call.peer.value);
  }
  if (!call.tag.empty()) {
    text += fmt::format(" \"{}\"", call.tag);
  }
  return text;
}

}  // namespace commlens
