#include "commlens/simulate/timeline/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

/// Steps that wait for each step of a program, and how many each waits for.
struct Followers {
  explicit Followers(const Program& program)
      : missing(program.steps.size(), 0), first(program.steps.size() + 1, 0) {
    std::vector<std::pair<StepIndex, StepIndex>> edges;  // earlier, later
    std::vector<std::optional<StepIndex>> last_of(256);
    for (StepIndex index = 0; index < program.steps.size(); ++index) {
      const PlanStep& step = program.steps[index];
      std::optional<StepIndex>& last = last_of[static_cast<std::size_t>(step.stream)];
      if (last) {
        edges.emplace_back(*last, index);
      }
      last = index;
      for (const StepIndex earlier : program.waits_of(step)) {
        edges.emplace_back(earlier, index);
      }
    }
    for (const auto& [earlier, follower] : edges) {
      ++first[earlier + 1];
      ++missing[follower];
    }
    for (std::size_t index = 1; index < first.size(); ++index) {
      first[index] += first[index - 1];
    }
    later.resize(edges.size());
    std::vector<std::uint32_t> place(first.begin(), first.end() - 1);
    for (const auto& [earlier, follower] : edges) {
      later[place[earlier]++] = follower;
    }
  }

  std::vector<std::uint32_t> missing;
  std::vector<std::uint32_t> first;  // of later, by step
  std::vector<StepIndex> later;
};

/// Something that takes time: its end moves when its speed changes.
struct Activity {
  double remaining = 0;  // ticks at full speed
  double speed = 1;
  Ticks changed = 0;
  std::uint32_t version = 0;
  bool is_active = false;
};

/// A step of a class that waits for, or takes part in, a call.
struct Arrival {
  std::uint32_t class_row = 0;
  StepIndex step = 0;
};

struct Transfer {
  Activity activity;
  std::vector<Arrival> arrivals;
  OpId op{};
  ChannelId channel = 0;
  Ticks alone = 0;
  bool is_played = false;  // another moves it
};

/// Arrivals of one class in a channel that have not met yet, of a message those of one end.
using Waiting = std::deque<std::pair<Arrival, Ticks>>;  // with what the call takes

struct Event {
  Ticks when = 0;
  std::uint64_t order = 0;
  bool is_transfer = false;
  std::uint32_t row = 0;
  std::uint32_t version = 0;
  friend bool operator>(const Event& a, const Event& b) {
    return std::tie(a.when, a.order) > std::tie(b.when, b.order);
  }
};

class Engine {
 public:
  Engine(const Plan& plan, const SimulatedRanks& ranks, const StepCosts& costs)
      : plan_(plan), ranks_(ranks), costs_(costs) {}

  Result<std::vector<ClassTimeline>> run(const std::vector<Iteration>& iterations) {
    for (const SimulatedClass& simulated : ranks_.classes) {
      ClassTimeline& line = lines_.emplace_back();
      for (const Iteration iteration : iterations) {
        line.program.append(plan_.classes[simulated.plan_class].at(iteration));
      }
      line.times.resize(line.program.steps.size());
      followers_.emplace_back(line.program);
    }
    for (const Channel& channel : ranks_.channels) {
      waiting_.emplace_back(channel.is_message ? 2 : channel.classes.size());
    }
    works_.resize(lines_.size());
    holding_.resize(lines_.size(), 0);
    begin_first();
    while (true) {
      if (is_stale_ && (events_.empty() || events_.top().when > now_)) {
        share();
      }
      if (played_ > 0 && end_played()) {
        continue;
      }
      if (!error_.empty()) {
        return failure(error_);
      }
      if (events_.empty()) {
        return done();
      }
      const Event event = events_.top();
      events_.pop();
      handle(event);
    }
  }

 private:
  struct Work {
    Activity activity;
    StepIndex step = 0;
  };

  void begin_first() {
    for (std::uint32_t row = 0; row < lines_.size(); ++row) {
      const std::vector<std::uint32_t> missing = followers_[row].missing;
      for (StepIndex step = 0; step < missing.size(); ++step) {
        if (missing[step] == 0) {
          begin(row, step);
        }
      }
    }
  }

  void handle(const Event& event) {
    Activity& activity = event.is_transfer ? transfers_[event.row].activity : works_[event.row].activity;
    if (!activity.is_active || activity.version != event.version) {
      return;
    }
    now_ = event.when;
    activity.is_active = false;
    if (event.is_transfer) {
      end_transfer(event.row);
    } else {
      end(event.row, works_[event.row].step);
    }
  }

  /// Ends the next call that another moves, if it ends before anything else happens.
  bool end_played() {
    const Ticks limit = events_.empty() ? k_never : events_.top().when;
    const std::optional<PlayedCallEnd> next = limit > now_ ? costs_.player.next_end(limit) : std::nullopt;
    if (!next) {
      return false;
    }
    if (next->call >= transfers_.size() || !transfers_[next->call].is_played) {
      error_ = fmt::format("a call of the number {} has ended that was not under way", next->call);
      return false;
    }
    now_ = std::clamp(next->when, now_, limit);
    --played_;
    end_transfer(next->call);
    return true;
  }

  void end_transfer(std::uint32_t row) {
    const Transfer transfer = std::exchange(transfers_[row], {.activity = transfers_[row].activity});
    free_.push_back(row);
    if (!transfer.is_played) {
      moving_.erase(std::find(moving_.begin(), moving_.end(), row));
      is_stale_ = true;
    }
    if (!ranks_.channels[transfer.channel].is_message) {
      for (const Arrival& arrival : transfer.arrivals) {
        hold(arrival.class_row, -1);
      }
    }
    for (const Arrival& arrival : transfer.arrivals) {
      end(arrival.class_row, arrival.step);
    }
  }

  void begin(std::uint32_t row, StepIndex step) {
    StepTimes& times = lines_[row].times[step];
    times.ready = now_;
    times.moving = now_;
    const PlanStep& planned = lines_[row].program.steps[step];
    if (planned.kind == PlanStep::Kind::call) {
      arrive(row, step, plan_.tables.op(planned.op()));
      return;
    }
    Work& work = works_[row];
    COMMLENS_CHECK(!work.activity.is_active, "a rank computes one thing at a time");
    work.step = step;
    const Ticks ticks = costs_.work(ranks_.classes[row], planned.work());
    work.activity = {static_cast<double>(ticks), work_speed(row), now_, work.activity.version + 1, true};
    schedule(work.activity, false, row);
  }

  void end(std::uint32_t row, StepIndex step) {
    lines_[row].times[step].finished = now_;
    ++ended_;
    Followers& followers = followers_[row];
    for (std::uint32_t at = followers.first[step]; at < followers.first[step + 1]; ++at) {
      const StepIndex later = followers.later[at];
      if (--followers.missing[later] == 0) {
        begin(row, later);
      }
    }
  }

  /// A call of a rank: it moves once the others have come too.
  void arrive(std::uint32_t row, StepIndex step, const CommOp& op) {
    const auto group = ranks_.classes[row].groups.find(op.group);
    if (group == ranks_.classes[row].groups.end()) {  // of this rank alone
      end(row, step);
      return;
    }
    const Channel& channel = ranks_.channels[group->second.channel];
    std::vector<Waiting>& sides = waiting_[group->second.channel];
    const std::size_t side =
        channel.is_message
            ? (op.kind == CommKind::recv ? 1 : 0)
            : static_cast<std::size_t>(std::lower_bound(channel.classes.begin(), channel.classes.end(), row) -
                                       channel.classes.begin());
    const OpId id = lines_[row].program.steps[step].op();
    sides[side].push_back({{row, step}, costs_.call(group->second, id)});
    if (!channel.is_message) {
      hold(row, 1);
    }
    if (std::all_of(sides.begin(), sides.end(), [](const Waiting& waiting) { return !waiting.empty(); })) {
      move(group->second.channel, id);
    }
  }

  void move(ChannelId channel, OpId op) {
    std::uint32_t row = 0;
    if (free_.empty()) {
      row = static_cast<std::uint32_t>(transfers_.size());
      transfers_.emplace_back();
    } else {
      row = free_.back();
      free_.pop_back();
    }
    const std::uint32_t version = transfers_[row].activity.version + 1;
    Transfer transfer;
    for (Waiting& waiting : waiting_[channel]) {
      const auto& [arrival, ticks] = waiting.front();
      transfer.arrivals.push_back(arrival);
      transfer.alone = std::max(transfer.alone, ticks);
      lines_[arrival.class_row].times[arrival.step].moving = now_;
      waiting.pop_front();
    }
    transfer.op = op;
    transfer.channel = channel;
    transfer.activity = {static_cast<double>(transfer.alone), 1, now_, version, true};
    transfer.is_played = costs_.player.begin && costs_.player.begin(row, {op, channel, transfer.alone}, now_);
    transfers_[row] = std::move(transfer);
    if (transfers_[row].is_played) {
      ++played_;
      return;
    }
    moving_.push_back(row);
    is_stale_ = true;
    schedule(transfers_[row].activity, true, row);
  }

  /// A rank that a call is under way on computes slower.
  void hold(std::uint32_t row, int change) {
    const double before = work_speed(row);
    holding_[row] += change;
    Work& work = works_[row];
    if (work.activity.is_active && work_speed(row) != before) {
      set_speed(work.activity, work_speed(row), false, row);
    }
  }

  double work_speed(std::uint32_t row) const { return holding_[row] > 0 ? 1 - costs_.held_share : 1; }

  /// Calls that move over the same links share them. Once all that begins or ends now has.
  void share() {
    is_stale_ = false;
    if (!costs_.speeds || moving_.empty()) {
      return;
    }
    std::vector<MovingCall> calls;
    for (const std::uint32_t row : moving_) {
      calls.push_back({transfers_[row].op, transfers_[row].channel, transfers_[row].alone});
    }
    const std::vector<double> speeds = costs_.speeds(calls);
    for (std::size_t at = 0; at < moving_.size(); ++at) {
      Activity& activity = transfers_[moving_[at]].activity;
      if (activity.speed != speeds[at]) {
        set_speed(activity, speeds[at], true, moving_[at]);
      }
    }
  }

  void set_speed(Activity& activity, double speed, bool is_transfer, std::uint32_t row) {
    activity.remaining -= static_cast<double>(now_ - activity.changed) * activity.speed;
    activity.remaining = std::max(activity.remaining, 0.0);
    activity.changed = now_;
    activity.speed = speed;
    ++activity.version;
    schedule(activity, is_transfer, row);
  }

  void schedule(const Activity& activity, bool is_transfer, std::uint32_t row) {
    const Ticks takes = std::llround(activity.remaining / activity.speed);
    events_.push({now_ + takes, next_order_++, is_transfer, row, activity.version});
  }

  Result<std::vector<ClassTimeline>> done() {
    std::size_t steps = 0;
    for (const ClassTimeline& line : lines_) {
      steps += line.program.steps.size();
    }
    return ended_ == steps ? Result<std::vector<ClassTimeline>>(std::move(lines_)) : failure(stuck_text());
  }

  /// The first call that waits for ever.
  std::string stuck_text() const {
    for (ChannelId channel = 0; channel < waiting_.size(); ++channel) {
      for (const Waiting& waiting : waiting_[channel]) {
        if (!waiting.empty()) {
          const Arrival& arrival = waiting.front().first;
          const CommOp& op = plan_.tables.op(lines_[arrival.class_row].program.steps[arrival.step].op());
          return fmt::format("the plan does not end: rank {} waits for ever in its {} of axis {} ({})",
                             ranks_.classes[arrival.class_row].ranks.front().first.value, name_of(op.kind),
                             plan_.tables.groups.axis(op.group).name(), plan_.tables.tags.text(op.tag));
        }
      }
    }
    return "the plan does not end: steps wait for each other";
  }

  const Plan& plan_;
  const SimulatedRanks& ranks_;
  const StepCosts& costs_;
  std::vector<ClassTimeline> lines_;
  std::vector<Followers> followers_;
  std::vector<std::vector<Waiting>> waiting_;  // by channel and side
  std::vector<Work> works_;                    // by class
  std::vector<int> holding_;                   // calls under way, by class
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> moving_;
  bool is_stale_ = false;   // others move than when speeds were worked out
  std::size_t played_ = 0;  // calls that another moves
  std::string error_;       // of what moves them
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t next_order_ = 0;
  std::size_t ended_ = 0;
  Ticks now_ = 0;
};

}  // namespace

Result<std::vector<ClassTimeline>> timeline(const Plan& plan, const SimulatedRanks& ranks,
                                            const std::vector<Iteration>& iterations,
                                            const StepCosts& costs) {
  return Engine(plan, ranks, costs).run(iterations);
}

}  // namespace commlens
