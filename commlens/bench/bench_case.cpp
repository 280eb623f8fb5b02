#include "commlens/bench/bench_case.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"

namespace commlens::bench {
namespace {

constexpr std::int64_t k_alignment = 4096;

std::size_t whole(Bytes bytes) { return static_cast<std::size_t>(round_up(bytes.value, k_alignment)); }

Elements sum_of(std::span<const Elements> parts) {
  return std::accumulate(parts.begin(), parts.end(), Elements{});
}

/// Where a part starts.
std::int64_t offset_of(std::span<const Elements> parts, std::int64_t part) {
  return sum_of(parts.first(static_cast<std::size_t>(part))).value;
}

Elements part_at(const std::vector<Elements>& parts, std::int64_t place) {
  return parts.at(static_cast<std::size_t>(place));
}

std::vector<Elements> parts_of_case(const BenchCase& timed) {
  return timed.parts.empty() ? unequal_parts(timed.message, timed.ranks) : timed.parts;
}

/// What rank `from` sends to each rank: the parts, in an order of its own.
std::vector<Elements> sent_parts(const BenchCase& timed, std::int64_t from) {
  const std::vector<Elements> parts = parts_of_case(timed);
  std::vector<Elements> sent;
  for (std::int64_t to = 0; to < timed.ranks; ++to) {
    sent.push_back(part_at(parts, (from + to) % timed.ranks));
  }
  return sent;
}

CaseSizes sizes_of_parts(const BenchCase& timed, std::int64_t rank) {
  CaseSizes sizes{timed.message, timed.message, {}, {}};
  std::vector<Elements> parts = parts_of_case(timed);
  if (timed.op == BenchOp::all_gather_v) {
    sizes.input = part_at(parts, rank);
    sizes.output_parts = std::move(parts);
  } else if (timed.op == BenchOp::reduce_scatter_v) {
    sizes.output = part_at(parts, rank);
    sizes.input_parts = std::move(parts);
  } else {
    // Symmetric: what `rank` sends to another is what it gets from it.
    sizes.input_parts = sent_parts(timed, rank);
    sizes.output_parts = sizes.input_parts;
  }
  return sizes;
}

constexpr std::int64_t k_sums = -1;  // VerifiedPart::from

/// Outputs that have a part of each rank, or each message of a window.
std::vector<VerifiedPart> parts_from_each(const BenchCase& timed, const CaseSizes& sizes, std::int64_t rank) {
  std::vector<VerifiedPart> parts;
  const std::int64_t part = sizes.output.value / timed.ranks;
  const bool is_window = timed.op == BenchOp::bandwidth;
  const std::int64_t count = !is_window ? timed.ranks : rank == 1 ? k_bandwidth_window : 1;
  for (std::int64_t place = 0; place < count && sizes.output.value > 0; ++place) {
    if (is_window) {
      const std::int64_t message = sizes.output.value / count;
      parts.push_back({place * message, message, 1 - rank, 0});
    } else if (timed.op == BenchOp::all_to_all) {
      parts.push_back({place * part, part, place, rank * part});
    } else if (timed.op == BenchOp::all_to_all_v) {
      parts.push_back({offset_of(sizes.output_parts, place), part_at(sizes.output_parts, place).value, place,
                       offset_of(sent_parts(timed, place), rank)});
    } else if (timed.op == BenchOp::all_gather_v) {
      const std::int64_t at = offset_of(sizes.output_parts, place);
      parts.push_back({at, part_at(sizes.output_parts, place).value, place, at});
    } else {
      parts.push_back({place * part, part, place, place * part});
    }
  }
  return parts;
}

}  // namespace

std::vector<Elements> unequal_parts(Elements total, std::int64_t ranks) {
  const std::int64_t shares = ranks * (ranks + 1) / 2;
  std::vector<Elements> parts;
  for (std::int64_t rank = 0; rank + 1 < ranks; ++rank) {
    parts.push_back({total.value / shares * (rank + 1)});
  }
  parts.push_back(total - sum_of(parts));
  return parts;
}

CaseSizes sizes_of(const BenchCase& timed, std::int64_t rank) {
  const Elements part{timed.message.value / timed.ranks};
  const bool is_root = rank == timed.root;
  switch (timed.op) {
    case BenchOp::all_gather:
      return {part, timed.message, {}, {}};
    case BenchOp::reduce_scatter:
      return {timed.message, part, {}, {}};
    case BenchOp::gather:
      return {part, is_root ? timed.message : Elements{}, {}, {}};
    case BenchOp::scatter:
      return {is_root ? timed.message : Elements{}, part, {}, {}};
    case BenchOp::all_gather_v:
    case BenchOp::reduce_scatter_v:
    case BenchOp::all_to_all_v:
      return sizes_of_parts(timed, rank);
    case BenchOp::send:
      return rank == 0 ? CaseSizes{timed.message, {}, {}, {}} : CaseSizes{{}, timed.message, {}, {}};
    case BenchOp::bandwidth:
      return rank == 0 ? CaseSizes{timed.message, {1}, {}, {}}
                       : CaseSizes{{1}, timed.message * k_bandwidth_window, {}, {}};
    case BenchOp::barrier:
      return {};
    case BenchOp::all_reduce:
    case BenchOp::all_to_all:
    case BenchOp::broadcast:
    case BenchOp::reduce:
    case BenchOp::ping_pong:
      break;
  }
  return {timed.message, timed.message, {}, {}};
}

std::vector<VerifiedPart> verified_parts(const BenchCase& timed, std::int64_t rank) {
  const CaseSizes sizes = sizes_of(timed, rank);
  const std::int64_t output = sizes.output.value;
  switch (timed.op) {
    case BenchOp::all_reduce:
      return {{0, output, k_sums, 0}};
    case BenchOp::reduce:
      return rank == timed.root ? std::vector<VerifiedPart>{{0, output, k_sums, 0}}
                                : std::vector<VerifiedPart>();
    case BenchOp::broadcast:
      return {{0, output, timed.root, 0}};
    case BenchOp::scatter:
      return {{0, output, timed.root, rank * output}};
    case BenchOp::reduce_scatter:
      return {{0, output, k_sums, rank * output}};
    case BenchOp::reduce_scatter_v:
      return {{0, output, k_sums, offset_of(sizes.input_parts, rank)}};
    case BenchOp::send:
    case BenchOp::ping_pong:
      return {{0, output, 1 - rank, 0}};
    case BenchOp::all_gather:
    case BenchOp::all_gather_v:
    case BenchOp::gather:
    case BenchOp::all_to_all:
    case BenchOp::all_to_all_v:
    case BenchOp::bandwidth:
      return parts_from_each(timed, sizes, rank);
    case BenchOp::barrier:
      break;
  }
  return {};
}

void Arena::Release::operator()(std::byte* memory) const { std::free(memory); }

Arena::Arena(Bytes largest, Bytes least, const std::function<bool(Bytes done)>& goes_on)
    : size_(std::max({whole(largest), whole(least), std::size_t{k_alignment}})) {
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(k_alignment, size_)));
  if (!memory_) {
    throw SystemError(
        fmt::format("no memory for buffers of {}", to_text(Bytes{static_cast<std::int64_t>(size_)})));
  }
  constexpr std::size_t k_piece = std::size_t{64} << 20;
  bool is_wanted = true;
  for (std::size_t at = 0; at < size_ && is_wanted; at += k_piece) {
    const std::size_t end = std::min(at + k_piece, size_);
    std::memset(memory_.get() + at, 0, end - at);  // pages of its own, before anything is timed
    is_wanted = end == size_ || !goes_on || goes_on({static_cast<std::int64_t>(end)});
  }
}

std::span<std::byte> Arena::next(Bytes bytes) {
  const std::size_t size = whole(bytes);
  COMMLENS_CHECK(size <= size_, "an arena holds the buffers of its largest call");
  if (next_ + size > size_) {
    next_ = 0;
  }
  const std::size_t at = std::exchange(next_, next_ + size);
  return {memory_.get() + at, size};
}

Bytes arena_bytes(const BenchCase& timed, std::int64_t rank) {
  const CaseSizes sizes = sizes_of(timed, rank);
  const std::size_t input = whole(sizes.input * timed.dtype);
  const std::size_t output = timed.in_place ? 0 : whole(sizes.output * timed.dtype);
  return {static_cast<std::int64_t>(input + output)};
}

CaseCalls::CaseCalls(const BenchCase& timed, Communicator& communicator, Arena& arena)
    : case_(timed),
      communicator_(communicator),
      arena_(arena),
      rank_(communicator.rank().value),
      sizes_(sizes_of(timed, rank_)),
      output_at_(timed.in_place ? 0 : whole(sizes_.input * timed.dtype)) {
  COMMLENS_CHECK(communicator.size() == timed.ranks, "a case is of its group");
  take_buffers();
}

void CaseCalls::take_buffers() { buffers_ = arena_.next(arena_bytes(case_, rank_)); }

std::span<std::byte> CaseCalls::input() const {
  return buffers_.first(static_cast<std::size_t>((sizes_.input * case_.dtype).value));
}

std::span<std::byte> CaseCalls::output() const {
  return buffers_.subspan(output_at_, static_cast<std::size_t>((sizes_.output * case_.dtype).value));
}

CommCall CaseCalls::call() const {
  CommCall call{.kind = kind_of(case_.op),
                .dtype = case_.dtype,
                .input_buffer = input().data(),
                .output_buffer = output().data(),
                .input = sizes_.input,
                .output = sizes_.output,
                .peer = {case_.root},
                .input_parts = sizes_.input_parts,
                .output_parts = sizes_.output_parts};
  if (case_.op == BenchOp::gather || case_.op == BenchOp::scatter) {
    call.other = case_.op == BenchOp::gather ? OtherCall::gather : OtherCall::scatter;
  }
  if (is_of_pairs(case_.op)) {
    call.kind = rank_ == 0 ? CommKind::send : CommKind::recv;
    call.peer = {1 - rank_};
  }
  return call;
}

std::unique_ptr<Work> CaseCalls::start() { return communicator_.start(call()); }

void CaseCalls::run() {
  if (case_.op == BenchOp::ping_pong) {
    ping_pong();
  } else if (case_.op == BenchOp::bandwidth) {
    window();
  } else {
    communicator_.run(call());
  }
}

void CaseCalls::ping_pong() {
  CommCall sent = call();
  sent.kind = CommKind::send;
  sent.output = {};
  CommCall received = call();
  received.kind = CommKind::recv;
  received.input = {};
  communicator_.run(rank_ == 0 ? sent : received);
  communicator_.run(rank_ == 0 ? received : sent);
}

void CaseCalls::window() {
  const auto one = static_cast<std::size_t>(case_.bytes().value);
  std::vector<std::unique_ptr<Work>> works;
  CommCall message = call();
  message.input = rank_ == 0 ? case_.message : Elements{};
  message.output = rank_ == 0 ? Elements{} : case_.message;
  for (std::int64_t sent = 0; sent < k_bandwidth_window; ++sent) {
    message.output_buffer = rank_ == 0 ? nullptr : output().data() + static_cast<std::size_t>(sent) * one;
    works.push_back(communicator_.start(message));
  }
  for (const std::unique_ptr<Work>& work : works) {
    work->wait();
  }
  CommCall back = call();
  back.kind = rank_ == 0 ? CommKind::recv : CommKind::send;
  back.input = {rank_ == 0 ? 0 : 1};
  back.output = {rank_ == 0 ? 1 : 0};
  back.output_buffer = output().data();
  communicator_.run(back);
}

Wrong CaseCalls::verified(std::int64_t iteration) {
  if (case_.op == BenchOp::barrier) {
    communicator_.run(call());
    return {};
  }
  take_buffers();
  if (!case_.in_place) {
    spoil(output());
  }
  fill_input(iteration);
  run();
  const Wrong wrong = wrong_of(iteration);
  if (case_.in_place) {
    std::fill(buffers_.begin(), buffers_.end(), std::byte{0});  // sums of sums would grow from call to call
  }
  return wrong;
}

void CaseCalls::fill_input(std::int64_t iteration) {
  const Pattern pattern{case_.dtype, case_.ranks, iteration, combines(case_.op)};
  std::int64_t first = 0;
  if (case_.op == BenchOp::all_gather || case_.op == BenchOp::gather) {
    first = rank_ * sizes_.input.value;
  } else if (case_.op == BenchOp::all_gather_v) {
    first = offset_of(sizes_.output_parts, rank_);
  }
  if (case_.op == BenchOp::broadcast && case_.in_place && rank_ != case_.root) {
    spoil(input());
    return;
  }
  fill(pattern, rank_, first, input());
}

Wrong CaseCalls::wrong_of(std::int64_t iteration) const {
  const Pattern pattern{case_.dtype, case_.ranks, iteration, combines(case_.op)};
  const auto width = static_cast<std::size_t>(size_of(case_.dtype));
  Wrong wrong;
  for (const VerifiedPart& part : verified_parts(case_, rank_)) {
    const Wrong found = compare(pattern, part.from, part.position,
                                output().subspan(static_cast<std::size_t>(part.at) * width,
                                                 static_cast<std::size_t>(part.count) * width));
    if (wrong.elements == 0 && found.elements > 0) {
      wrong.first = part.at + found.first;
    }
    wrong.elements += found.elements;
  }
  return wrong;
}

}  // namespace commlens::bench
