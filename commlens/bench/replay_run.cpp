#include "commlens/bench/replay_run.hpp"

#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "commlens/trace/clock.hpp"
#include "commlens/transport/comm_recording.hpp"

namespace commlens::bench {
namespace {

using std::chrono::nanoseconds;

/// A communicator that somebody else owns.
class LentCommunicator final : public Communicator {
 public:
  explicit LentCommunicator(Communicator& owned) : owned_(owned) {}
  const std::vector<Rank>& members() const override { return owned_.members(); }
  GroupRank rank() const override { return owned_.rank(); }
  bool makes_progress() const override { return owned_.makes_progress(); }
  bool starting_pays() const override { return owned_.starting_pays(); }
  std::unique_ptr<Work> start(const CommCall& call) override { return owned_.start(call); }
  void run(const CommCall& call) override { owned_.run(call); }
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) override {
    return owned_.split(color, key);
  }
  void abort(std::string_view reason) override { owned_.abort(reason); }

 private:
  Communicator& owned_;
};

/// Returns at that time of the process's clock, or at once if it is over.
void stay_busy_until(std::int64_t end_ns, const PlayOptions& options) {
  constexpr std::int64_t k_wake_up_ns = 100'000;  // a sleep may end that late
  const Clock& clock = Clock::of_process();
  std::int64_t left_ns = end_ns - clock.now_ns();
  if (options.sleeps && left_ns > k_wake_up_ns) {
    std::this_thread::sleep_for(nanoseconds(left_ns - k_wake_up_ns));
  }
  while (clock.now_ns() < end_ns) {
    if (options.yields && !options.sleeps) {
      std::this_thread::yield();
    }
  }
}

ReplayClock clock_of(const PlayOptions& options) {
  if (options.clock) {
    return *options.clock;
  }
  return {.now_ns = [] { return Clock::of_process().now_ns(); },
          .stay_until = [options](std::int64_t end_ns) { stay_busy_until(end_ns, options); }};
}

nanoseconds scaled(nanoseconds time, double scale) {
  return nanoseconds(static_cast<std::int64_t>(static_cast<double>(time.count()) * scale));
}

}  // namespace

ReplayRank::ReplayRank(const ReplayPlan& plan, Communicator& world)
    : plan_(plan),
      program_(plan.ranks[static_cast<std::size_t>(world.rank().value)]),
      world_(world),
      groups_(plan.groups.size()),
      pool_(static_cast<std::size_t>(program_.pool.value)) {
  const Rank self{world.rank().value};
  for (std::size_t split = 0; split < plan.splits; ++split) {
    std::int64_t color = -1;
    std::int64_t place = 0;
    std::size_t joined = 0;
    for (std::size_t group = 0; group < plan.groups.size(); ++group) {
      const std::vector<Rank>& members = plan.groups[group].members;
      for (std::size_t member = 0; plan.groups[group].split == split && member < members.size(); ++member) {
        if (members[member] == self) {
          color = plan.groups[group].color;
          place = static_cast<std::int64_t>(member);
          joined = group;
        }
      }
    }
    std::unique_ptr<Communicator> made = world.split(color, place);
    if (color >= 0) {
      groups_[joined] = std::move(made);
    }
  }
}

ReplayRank::~ReplayRank() = default;

nanoseconds ReplayRank::play(const PlayOptions& options) {
  std::vector<Communicator*> groups;
  for (const std::unique_ptr<Communicator>& group : groups_) {
    groups.push_back(group.get());
  }
  return make_steps(options, groups, nullptr);
}

nanoseconds ReplayRank::play(const PlayOptions& options, Recorder& recorder) {
  CommClock clock;
  std::vector<std::unique_ptr<Communicator>> recorded_groups;
  std::vector<Communicator*> groups;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const ReplayGroup& made = plan_.groups[group];
    recorded_groups.push_back(groups_[group] == nullptr
                                  ? nullptr
                                  : recorded(std::make_unique<LentCommunicator>(*groups_[group]), made.axis,
                                             recorder, clock, made.communicator));
    groups.push_back(recorded_groups.back().get());
  }
  return make_steps(options, groups, &recorder);
}

nanoseconds ReplayRank::make_steps(const PlayOptions& options, const std::vector<Communicator*>& groups,
                                   Recorder* recorder) {
  std::vector<std::unique_ptr<Work>> works(program_.calls.size());
  const ReplayClock clock = clock_of(options);
  world_.barrier();
  const std::int64_t begin_ns = clock.now_ns();
  if (recorder != nullptr) {
    recorder->start_computing(begin_ns);
  }
  std::int64_t last_ns = begin_ns;  // of the rank's last step
  for (const ReplayStep& step : program_.steps) {
    const ReplayCall& call = program_.calls[step.call];
    const bool is_issue = step.kind == ReplayStep::Kind::issue;
    if (options.pace == ReplayPace::gaps && step.busy > nanoseconds(0)) {
      clock.stay_until(last_ns + scaled(step.busy, options.scale_compute).count());
    } else if (options.pace == ReplayPace::timed && is_issue) {
      clock.stay_until(begin_ns + scaled(call.issued, options.scale_compute).count());
    }
    if (!is_issue) {
      if (works[step.call] != nullptr) {
        works[step.call]->wait();
        works[step.call].reset();
      }
      last_ns = clock.now_ns();
      continue;
    }
    const ReplayOp& op = program_.ops[call.op];
    if (recorder != nullptr) {
      recorder->set_iteration(call.iteration);
      recorder->set_phase(op.phase, call.micro_batch);
    }
    CommCall made = op.call;
    made.input_buffer = pool_.data() + call.input_at;
    made.output_buffer = pool_.data() + call.output_at;
    last_ns = clock.now_ns();
    if (call.blocks) {
      groups[op.group]->run(made);
    } else {
      works[step.call] = groups[op.group]->start(made);
    }
  }
  if (recorder != nullptr) {
    recorder->stop_computing(clock.now_ns());
  }
  world_.barrier();
  return nanoseconds(clock.now_ns() - begin_ns);
}

}  // namespace commlens::bench
