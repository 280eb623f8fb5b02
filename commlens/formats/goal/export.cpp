#include "commlens/formats/goal/export.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/formats/goal/check.hpp"
#include "commlens/formats/io/schedule.hpp"
#include "commlens/trace/json_text.hpp"

namespace commlens::formats::goal {
namespace {

constexpr std::size_t k_goal_block = std::size_t{1} << 20;

/// What an operation waits for: the end of some before it (GOAL: requires), and the start of others
/// (irequires).
struct GoalAfter {
  std::vector<std::int64_t> ended;
  std::vector<std::int64_t> started;
};

/// Adds what `more` waits for.
void merge(const GoalAfter& more, GoalAfter& after) {
  const auto add = [](const std::vector<std::int64_t>& from, std::vector<std::int64_t>& to) {
    for (const std::int64_t label : from) {
      if (std::find(to.begin(), to.end(), label) == to.end()) {
        to.push_back(label);
      }
    }
  };
  add(more.ended, after.ended);
  add(more.started, after.started);
}

/// One rank's part of a collective: its place among the members, and who its neighbours are.
struct GoalSeat {
  const std::vector<Rank>* members = nullptr;
  std::int64_t place = 0;
  std::uint32_t tag = 0;

  std::int64_t ranks() const { return static_cast<std::int64_t>(members->size()); }
  Rank at(std::int64_t position) const {
    return (*members)[static_cast<std::size_t>(((position % ranks()) + ranks()) % ranks())];
  }
};

/// A call under way: what waits for it will wait for `end`; `first` is its first operation, 0 where it has
/// none.
struct OpenCall {
  std::uint32_t waited_at = 0;
  std::int64_t first = 0;
  GoalAfter end;
  std::chrono::nanoseconds finished{};
  friend bool operator>(const OpenCall& a, const OpenCall& b) { return a.waited_at > b.waited_at; }
};

/// Bytes of part `part` of a message that is cut into `parts`: the first ones get one more where it does not
/// come out even.
std::int64_t part_of(std::int64_t bytes, std::int64_t parts, std::int64_t part) {
  part = ((part % parts) + parts) % parts;
  return bytes / parts + (part < bytes % parts ? 1 : 0);
}

/// Text that stays in its comment.
std::string one_line(std::string_view text) {
  std::string printable = valid_utf8(std::string(text));
  std::replace_if(printable.begin(), printable.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return printable;
}

class GoalWriter {
 public:
  GoalWriter(const CallSchedule& schedule, const StepOrder* order, const TextSink& sink)
      : schedule_(schedule), trace_(schedule.trace()), order_(order), sink_(sink) {}

  void write_header(const GoalLeftOut& left_out);
  void write_rank(const RankStream* stream, Rank rank);
  void flush() {
    if (!text_.empty()) {
      sink_(text_);
      text_.clear();
    }
  }

 private:
  OpenCall write_call(const CommOp& op, const ScheduledCall& call);
  void write_collective(const CommOp& op, const GoalSeat& seat);
  void write_calls(const RankStream& stream);
  void write_steps(const RankStream& stream, const StreamOrder& order);
  void write_gap(std::chrono::nanoseconds started);
  void settle(std::uint32_t position);
  void message(const CommOp& op, const ScheduledCall& call);
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
  const GoalSeat& seat_of(const ScheduledCall& call);

  const CallSchedule& schedule_;
  const Trace& trace_;
  const StepOrder* order_;
  const TextSink& sink_;
  std::string text_;
  Rank rank_;
  std::int64_t label_ = 0;  // of this rank's last operation
  GoalAfter now_;           // what the next operation waits for
  std::priority_queue<OpenCall, std::vector<OpenCall>, std::greater<>> open_;
  std::optional<std::chrono::nanoseconds> last_change_;  // when a call last began or ended
  std::unordered_map<std::uint32_t, GoalSeat> seats_;    // by series
};

void GoalWriter::write_header(const GoalLeftOut& left_out) {
  text_ +=
      "// all_reduce, all_gather, reduce_scatter: ring; broadcast, reduce: binomial tree; all_to_all: "
      "direct;\n"
      "// barrier: dissemination. Messages of no bytes have one.\n";
  for (const auto& [name, calls] : left_out) {
    const std::string printable = one_line(name);
    text_ +=
        fmt::format("// skipped: {} calls of {}\n", calls, printable.empty() ? "an unknown kind" : printable);
  }
  if (schedule_.relaxed_waits() > 0) {
    text_ +=
        fmt::format("// waited for later than the next call, or ranks would wait for each other: {} calls\n",
                    schedule_.relaxed_waits());
  }
  if (order_ != nullptr) {
    const Provenance& provenance = trace_.provenance;
    text_ += fmt::format("// {} as predicted by the rules of {}{}\n", one_line(provenance.description),
                         one_line(provenance.framework), provenance.verified ? "" : ", unverified");
    text_ += "// calc 0: computing, whose time depends on the machine\n";
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

const GoalSeat& GoalWriter::seat_of(const ScheduledCall& call) {
  GoalSeat& seat = seats_[call.role.index];
  if (seat.members == nullptr) {
    seat.members = &schedule_.series()[call.role.index].members;
    seat.place = std::find(seat.members->begin(), seat.members->end(), rank_) - seat.members->begin();
  }
  seat.tag = call.tag;
  return seat;
}

/// A send ends by itself: nothing waits for it but for its start.
void GoalWriter::message(const CommOp& op, const ScheduledCall& call) {
  const MessagePair& pair = schedule_.pairs()[call.role.index];
  if (op.kind == CommKind::send) {
    now_ = {{}, {send((op.input * op.dtype).value, pair.destination, call.tag, now_)}};
  } else {
    const std::int64_t bytes = pair.bytes(call.number, (op.output * op.dtype).value);
    now_ = {{receive(bytes, pair.source, call.tag, now_)}, {}};
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

void GoalWriter::write_collective(const CommOp& op, const GoalSeat& seat) {
  const std::int64_t ranks = seat.ranks();
  switch (op.kind) {
    case CommKind::all_reduce:
      // Scatters the sums, then gathers them: a member ends the first half with the part after its own.
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

/// The call's operations, one after the other; what follows it waits for its first one to start, and from
/// `waited_at` on for its end.
OpenCall GoalWriter::write_call(const CommOp& op, const ScheduledCall& call) {
  const std::int64_t before = label_;
  if (call.role.kind == CallRole::Kind::collective) {
    write_collective(op, seat_of(call));
  } else if (call.role.kind != CallRole::Kind::nothing) {
    message(op, call);
  }
  OpenCall open{.waited_at = call.waited_at};
  if (label_ > before) {
    open.first = before + 1;
    open.end = std::exchange(now_, {{}, {open.first}});
  }
  return open;
}

/// Calls that the one at `position` finds finished.
void GoalWriter::settle(std::uint32_t position) {
  for (; !open_.empty() && open_.top().waited_at <= position; open_.pop()) {
    const OpenCall& call = open_.top();
    std::erase(now_.started, call.first);  // which its end implies
    now_.ended.insert(now_.ended.end(), call.end.ended.begin(), call.end.ended.end());
    now_.started.insert(now_.started.end(), call.end.started.begin(), call.end.started.end());
    last_change_ = std::max(last_change_.value_or(call.finished), call.finished);
  }
}

/// Since the last call that began or ended the rank has been busy with something else.
void GoalWriter::write_gap(std::chrono::nanoseconds started) {
  if (last_change_ && started > *last_change_) {
    const std::int64_t gap = (started - *last_change_).count();
    now_ = {{operation(fmt::format("calc {}", gap), now_)}, {}};
  }
  last_change_ = started;
}

void GoalWriter::write_rank(const RankStream* stream, Rank rank) {
  text_ += fmt::format("rank {} {{\n", rank.value);
  rank_ = rank;
  label_ = 0;
  now_ = {};
  open_ = {};
  seats_.clear();
  last_change_.reset();
  if (stream != nullptr && order_ != nullptr) {
    write_steps(*stream, order_->streams[static_cast<std::size_t>(stream - trace_.streams.data())]);
  } else if (stream != nullptr) {
    write_calls(*stream);
  }
  text_ += "}\n\n";
}

void GoalWriter::write_calls(const RankStream& stream) {
  ScheduledRank calls(schedule_, stream, rank_);
  for (ScheduledCall call; calls.next(call);) {
    settle(call.position);
    if (!stream.times.empty()) {
      write_gap(stream.times[call.row].started);
    }
    OpenCall open = write_call(trace_.op(stream.events[call.row].op), call);
    if (!stream.times.empty()) {
      open.finished = stream.times[call.row].finished;
    }
    open_.push(std::move(open));
  }
}

/// Each step waits for the end of those that it names, and for nothing else.
void GoalWriter::write_steps(const RankStream& stream, const StreamOrder& order) {
  ScheduledRank calls(schedule_, stream, rank_);
  std::vector<GoalAfter> ends(order.steps.size());
  for (std::size_t at = 0; at < order.steps.size(); ++at) {
    const OrderedStep& step = order.steps[at];
    now_ = {};
    for (std::uint32_t wait = step.first_wait; wait < step.first_wait + step.waits; ++wait) {
      merge(ends[order.waits[wait]], now_);
    }
    if (step.kind == OrderedStep::Kind::work) {
      ends[at] = {{operation("calc 0", now_)}, {}};
      continue;
    }
    ScheduledCall call;
    COMMLENS_CHECK(calls.next(call) && call.row == step.row,
                   "the order of a prediction has all of its calls");
    const OpenCall open = write_call(trace_.op(stream.events[call.row].op), call);
    ends[at] = open.first == 0 ? now_ : open.end;
  }
}

}  // namespace

Result<void> write(const Trace& trace, const CallSelection& selection, const TextSink& sink) {
  const Result<GoalLeftOut> left_out = check_goal(trace);
  if (!left_out) {
    return tl::unexpected(left_out.error());
  }
  const CallSchedule schedule(trace, selection.order != nullptr);
  if (schedule.mismatch()) {
    return failure(fmt::format("{}; GOAL needs the calls of all ranks", *schedule.mismatch()));
  }
  for (const CollectiveSeries& series : schedule.series()) {
    if (series.is_uneven) {
      return failure(
          fmt::format("GOAL needs to know how much each rank sends to each other one; of an all_to_all of "
                      "different amounts on a group of {} ranks the trace has the sums only",
                      series.members.size()));
    }
  }
  GoalWriter writer(schedule, selection.order, sink);
  writer.write_header(*left_out);
  for (Rank rank{0}; rank.value < trace.ranks(); ++rank.value) {
    writer.write_rank(trace.stream_of(rank), rank);
  }
  writer.flush();
  return {};
}

}  // namespace commlens::formats::goal
