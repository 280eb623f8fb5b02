#include "commlens/formats/exporters/goal.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "commlens/formats/exporters/goal_check.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_goal_block = std::size_t{1} << 20;

/// What an operation waits for: the end of some before it, and the start of others (GOAL: requires,
/// irequires).
struct GoalAfter {
  std::vector<std::int64_t> ended;
  std::vector<std::int64_t> started;
};

/// One rank's part of a collective: where it stands among the members, and who its neighbours are.
struct GoalSeat {
  std::vector<Rank> members;
  std::int64_t place = 0;
  std::uint32_t tag = 0;

  std::int64_t ranks() const { return static_cast<std::int64_t>(members.size()); }
  Rank at(std::int64_t position) const {
    return members[static_cast<std::size_t>(((position % ranks()) + ranks()) % ranks())];
  }
};

/// Bytes of part `part` of a message that is cut into `parts`: the first ones get one more where it does not
/// come out even.
std::int64_t part_of(std::int64_t bytes, std::int64_t parts, std::int64_t part) {
  part = ((part % parts) + parts) % parts;
  return bytes / parts + (part < bytes % parts ? 1 : 0);
}

class GoalWriter {
 public:
  GoalWriter(const Trace& trace, const GoalPlan& plan, const TextSink& sink)
      : trace_(trace), plan_(plan), sink_(sink) {}

  void write_header();
  void write_rank(const RankStream* stream, Rank rank);
  void flush() {
    if (!text_.empty()) {
      sink_(text_);
      text_.clear();
    }
  }

 private:
  void write_call(const CommOp& op, Rank rank);
  void write_gap(const Times& times);
  void message(const CommOp& op, Rank rank);
  void ring(const GoalSeat& seat, std::int64_t bytes, std::int64_t steps, std::int64_t first_part);
  void all_to_all(const GoalSeat& seat, const CommOp& op);
  void tree_down(const GoalSeat& seat, const CommOp& op);
  void tree_up(const GoalSeat& seat, const CommOp& op);
  void barrier(const GoalSeat& seat);

  std::int64_t send(std::int64_t bytes, Rank to, std::uint32_t tag, const GoalAfter& after) {
    return operation(fmt::format("send {}b to {} tag {}", std::max<std::int64_t>(bytes, 1), to.value, tag),
                     after);
  }
  std::int64_t receive(std::int64_t bytes, Rank from, std::uint32_t tag, const GoalAfter& after) {
    return operation(
        fmt::format("recv {}b from {} tag {}", std::max<std::int64_t>(bytes, 1), from.value, tag), after);
  }
  std::int64_t operation(const std::string& what, const GoalAfter& after);
  GoalSeat seat_of(const CommOp& op, Rank rank) const;

  const Trace& trace_;
  const GoalPlan& plan_;
  const TextSink& sink_;
  std::string text_;
  std::int64_t label_ = 0;  // of this rank's last operation
  GoalAfter now_;           // what the next call waits for
  std::optional<std::chrono::nanoseconds> busy_until_;
};

void GoalWriter::write_header() {
  text_ +=
      "// all_reduce, all_gather, reduce_scatter: ring; broadcast, reduce: binomial tree; all_to_all: "
      "direct;\n"
      "// barrier: dissemination. Messages of no bytes have one.\n";
  for (const auto& [name, calls] : plan_.left_out) {
    std::string printable = valid_utf8(name);
    std::replace_if(printable.begin(), printable.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    text_ += fmt::format("// left out: {} calls of {}\n", calls,
                         printable.empty() ? "an unknown kind" : printable);
  }
  text_ += fmt::format("num_ranks {}\n\n", trace_.ranks());
}

std::int64_t GoalWriter::operation(const std::string& what, const GoalAfter& after) {
  const std::int64_t label = ++label_;
  text_ += fmt::format("l{}: {}\n", label, what);
  for (const std::int64_t before : after.ended) {
    text_ += fmt::format("l{} requires l{}\n", label, before);
  }
  for (const std::int64_t before : after.started) {
    text_ += fmt::format("l{} irequires l{}\n", label, before);
  }
  if (text_.size() >= k_goal_block) {
    flush();
  }
  return label;
}

GoalSeat GoalWriter::seat_of(const CommOp& op, Rank rank) const {
  GoalSeat seat;
  seat.members = trace_.groups.members(op.group, rank);
  seat.place = std::find(seat.members.begin(), seat.members.end(), rank) - seat.members.begin();
  const auto tag = plan_.tags.find(seat.members);
  seat.tag = tag == plan_.tags.end() ? 0 : tag->second;
  return seat;
}

/// A receive holds up what follows; a send does not, since the receiver may be about to send as well.
void GoalWriter::message(const CommOp& op, Rank rank) {
  const std::vector<Rank> pair = trace_.groups.members(op.group, rank);
  if (pair.at(0) == pair.at(1)) {
    return;
  }
  if (op.kind == CommKind::send) {
    now_ = {{}, {send((op.input * op.dtype).value, pair[1], 0, now_)}};
  } else {
    now_ = {{receive((op.output * op.dtype).value, pair[0], 0, now_)}, {}};
  }
}

/// In each step a part goes to the next member and one comes from the previous; the part that came is the one
/// that goes on in the next step.
void GoalWriter::ring(const GoalSeat& seat, std::int64_t bytes, std::int64_t steps, std::int64_t first_part) {
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t sent = part_of(bytes, seat.ranks(), first_part - step);
    const std::int64_t received = part_of(bytes, seat.ranks(), first_part - step - 1);
    GoalAfter next = now_;
    if (sent > 0) {
      next.started = {send(sent, seat.at(seat.place + 1), seat.tag, now_)};
    }
    if (received > 0) {
      next.ended = {receive(received, seat.at(seat.place - 1), seat.tag, now_)};
      next.started = sent > 0 ? next.started : std::vector<std::int64_t>{};
    }
    now_ = std::move(next);
  }
}

void GoalWriter::all_to_all(const GoalSeat& seat, const CommOp& op) {
  GoalAfter all;
  for (std::int64_t distance = 1; distance < seat.ranks(); ++distance) {
    const std::int64_t sent = part_of((op.input * op.dtype).value, seat.ranks(), seat.place + distance);
    const std::int64_t received = part_of((op.output * op.dtype).value, seat.ranks(), seat.place);
    if (sent > 0) {
      all.started.push_back(send(sent, seat.at(seat.place + distance), seat.tag, now_));
    }
    if (received > 0) {
      all.ended.push_back(receive(received, seat.at(seat.place - distance), seat.tag, now_));
    }
  }
  if (!all.started.empty() || !all.ended.empty()) {
    now_ = {{operation("calc 0", all)}, {}};
  }
}

/// The lowest power of two in a place relative to the root, or for the root one that no place reaches.
std::int64_t tree_step(std::int64_t relative, std::int64_t ranks) {
  std::int64_t step = 1;
  while (step < ranks && (relative & step) == 0) {
    step *= 2;
  }
  return step;
}

void GoalWriter::tree_down(const GoalSeat& seat, const CommOp& op) {
  const std::int64_t bytes = (op.input * op.dtype).value;
  const std::int64_t root = op.root.value_or(GroupRank{0}).value;
  const std::int64_t relative = (seat.place - root + seat.ranks()) % seat.ranks();
  const std::int64_t step = tree_step(relative, seat.ranks());
  if (bytes == 0) {
    return;
  }
  if (relative != 0) {
    now_ = {{receive(bytes, seat.at(seat.place - step), seat.tag, now_)}, {}};
  }
  for (std::int64_t distance = step / 2; distance >= 1; distance /= 2) {
    if (relative + distance < seat.ranks()) {
      const std::int64_t sent = send(bytes, seat.at(seat.place + distance), seat.tag, now_);
      now_.started = {sent};
    }
  }
}

void GoalWriter::tree_up(const GoalSeat& seat, const CommOp& op) {
  const std::int64_t bytes = (op.input * op.dtype).value;
  const std::int64_t root = op.root.value_or(GroupRank{0}).value;
  const std::int64_t relative = (seat.place - root + seat.ranks()) % seat.ranks();
  const std::int64_t step = tree_step(relative, seat.ranks());
  if (bytes == 0) {
    return;
  }
  for (std::int64_t distance = 1; distance < step; distance *= 2) {
    if (relative + distance < seat.ranks()) {
      now_ = {{receive(bytes, seat.at(seat.place + distance), seat.tag, now_)}, {}};
    }
  }
  if (relative != 0) {
    now_ = {{}, {send(bytes, seat.at(seat.place - step), seat.tag, now_)}};
  }
}

void GoalWriter::barrier(const GoalSeat& seat) {
  for (std::int64_t distance = 1; distance < seat.ranks(); distance *= 2) {
    const std::int64_t sent = send(1, seat.at(seat.place + distance), seat.tag, now_);
    const std::int64_t received = receive(1, seat.at(seat.place - distance), seat.tag, now_);
    now_ = {{received}, {sent}};
  }
}

void GoalWriter::write_call(const CommOp& op, Rank rank) {
  if (is_point_to_point(op.kind)) {
    message(op, rank);
    return;
  }
  if (op.kind == CommKind::other) {
    return;
  }
  const GoalSeat seat = seat_of(op, rank);
  const std::int64_t ranks = seat.ranks();
  if (ranks < 2) {
    return;
  }
  switch (op.kind) {
    case CommKind::all_reduce:
      // Scatters the sums, then gathers them: a member ends the first half with the part behind its own.
      ring(seat, (op.input * op.dtype).value, ranks - 1, seat.place);
      ring(seat, (op.input * op.dtype).value, ranks - 1, seat.place + 1);
      break;
    case CommKind::reduce_scatter:
      ring(seat, (op.input * op.dtype).value, ranks - 1, seat.place - 1);
      break;
    case CommKind::all_gather:
      ring(seat, (op.output * op.dtype).value, ranks - 1, seat.place);
      break;
    case CommKind::all_to_all:
      all_to_all(seat, op);
      break;
    case CommKind::broadcast:
      tree_down(seat, op);
      break;
    case CommKind::reduce:
      tree_up(seat, op);
      break;
    default:
      barrier(seat);
      break;
  }
}

/// The time from the end of all calls before to the start of the next.
void GoalWriter::write_gap(const Times& times) {
  if (busy_until_ && times.started > *busy_until_) {
    const std::int64_t gap = (times.started - *busy_until_).count();
    now_ = {{operation(fmt::format("calc {}", gap), now_)}, {}};
  }
  busy_until_ = std::max(busy_until_.value_or(times.finished), times.finished);
}

void GoalWriter::write_rank(const RankStream* stream, Rank rank) {
  text_ += fmt::format("rank {} {{\n", rank.value);
  label_ = 0;
  now_ = {};
  busy_until_.reset();
  for (std::size_t row = 0; stream != nullptr && row < stream->events.size(); ++row) {
    if (!stream->times.empty()) {
      write_gap(stream->times[row]);
    }
    write_call(trace_.op(stream->events[row].op), rank);
  }
  text_ += "}\n\n";
}

}  // namespace

Result<void> write_goal(const Trace& trace, const CallSelection&, const TextSink& sink) {
  const Result<GoalPlan> plan = plan_goal(trace);
  if (!plan) {
    return tl::unexpected(plan.error());
  }
  GoalWriter writer(trace, *plan, sink);
  writer.write_header();
  for (Rank rank{0}; rank.value < trace.ranks(); ++rank.value) {
    writer.write_rank(trace.stream_of(rank), rank);
  }
  writer.flush();
  return {};
}

}  // namespace commlens
