#include "commlens/transport/comm_recording.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "commlens/base/result.hpp"
#include "commlens/trace/clock.hpp"
#include "commlens/trace/test_support.hpp"
#include "commlens/trace/trace_file.hpp"
#include "commlens/transport/conformance_cases.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens {
namespace {

using test_support::ScratchDirectory;
using test_support::spelled_calls;
using test_support::SpelledCall;

/// A call of the recording, as text: "all_gather fp32 3 -> 6 [0 1]".
std::string text_of(const SpelledCall& call) {
  std::string text =
      fmt::format("{} {} {} -> {} [", name_of(call.kind), name_of(call.dtype), call.input, call.output);
  for (const Rank rank : call.group) {
    text += fmt::format("{}{}", text.back() == '[' ? "" : " ", rank.value);
  }
  text += "]";
  text += call.root < 0 ? "" : fmt::format(" root {}", call.root);
  text += call.tag.empty() ? "" : " " + call.tag;
  return text;
}

/// The recording of `ranks` ranks; the body gets its recorded world (axis dp) and its clock.
class Recording {
 public:
  template <typename Body>
  Recording(std::int64_t ranks, const Body& body) {
    create_recording(directory_ / "t",
                     {.producer = "test", .description = "", .framework = "commlens", .ranks = ranks});
    run_thread_ranks(ranks, [&](std::unique_ptr<Communicator> world) {
      Recorder recorder(directory_ / "t", Rank{world->rank().value});
      CommClock clock;
      const std::unique_ptr<Communicator> seen = recorded(std::move(world), Axis::dp, recorder, clock);
      body(*seen, recorder, clock);
    });
    finish_recording(directory_ / "t");
    Result<Trace> trace = read_trace(directory_ / "t");
    EXPECT_TRUE(trace) << trace.error().message;
    trace_ = trace ? std::move(*trace) : Trace();
  }

  std::vector<std::string> calls_of(std::int64_t rank) const {
    std::vector<std::string> texts;
    for (const SpelledCall& call : spelled_calls(trace_, Rank{rank})) {
      texts.push_back(text_of(call));
    }
    return texts;
  }

  const Trace& trace() const { return trace_; }

 private:
  ScratchDirectory directory_;
  Trace trace_;
};

using Texts = std::vector<std::string>;

CommCall call_on(CommKind kind, std::vector<float>& buffer, std::int64_t input, std::int64_t output) {
  return {.kind = kind,
          .dtype = DType::fp32,
          .input_buffer = buffer.data(),
          .output_buffer = buffer.data() + (kind == CommKind::all_gather ? input : 0),
          .input = {input},
          .output = {output}};
}

TEST(RecordedCommunicator, RecordsCallsThatAreMadeWithAnAlgorithm) {
  const Recording recording(2, [](Communicator& world, Recorder&, CommClock&) {
    const auto chosen = world.with_algorithm(CommKind::all_reduce, "reduce_scatter_all_gather");
    ASSERT_TRUE(chosen);
    std::vector<float> buffer(4, 1);
    (*chosen)->run(call_on(CommKind::all_reduce, buffer, 4, 4));
  });
  EXPECT_EQ(recording.calls_of(1), Texts{"all_reduce fp32 4 -> 4 [0 1]"});
}

TEST(RecordedCommunicator, WritesCollectivesOfItsGroup) {
  const Recording recording(2, [](Communicator& world, Recorder&, CommClock&) {
    std::vector<float> buffer(16);
    CommCall call = call_on(CommKind::all_reduce, buffer, 5, 5);
    call.tag = "mlp";
    world.run(call);
    world.run(call_on(CommKind::all_gather, buffer, 3, 6));
    call = call_on(CommKind::broadcast, buffer, 4, 4);
    call.peer = GroupRank{1};
    world.run(call);
    call.kind = CommKind::reduce;
    call.peer = GroupRank{0};
    world.run(call);
    world.barrier();
  });
  const Texts expected{"all_reduce fp32 5 -> 5 [0 1] mlp", "all_gather fp32 3 -> 6 [0 1]",
                       "broadcast fp32 4 -> 4 [0 1] root 1", "reduce fp32 4 -> 4 [0 1] root 0",
                       "barrier uint8 0 -> 0 [0 1]"};
  EXPECT_EQ(recording.calls_of(0), expected);
  EXPECT_EQ(recording.calls_of(1), expected);
  EXPECT_EQ(recording.trace().groups.axis(recording.trace().ops().front().group), Axis::dp);
}

TEST(RecordedCommunicator, WritesGatherScatterAndAveragesByTheirNames) {
  const Recording recording(2, [](Communicator& world, Recorder&, CommClock&) {
    const bool is_root = world.rank() == GroupRank{1};
    std::vector<float> parts(3);
    std::vector<float> whole(6);
    CommCall call{.kind = CommKind::other,
                  .dtype = DType::fp32,
                  .input_buffer = parts.data(),
                  .output_buffer = whole.data(),
                  .input = {3},
                  .output = {is_root ? 6 : 0},
                  .peer = GroupRank{1},
                  .other = OtherCall::gather};
    world.run(call);
    std::swap(call.input, call.output);
    call.input_buffer = whole.data();
    call.output_buffer = parts.data();
    call.other = OtherCall::scatter;
    world.run(call);
    call = call_on(CommKind::all_reduce, parts, 3, 3);
    call.reduction = ReduceOp::avg;
    world.run(call);
  });
  EXPECT_EQ(recording.calls_of(0), (Texts{"other fp32 3 -> 0 [0 1] root 1", "other fp32 0 -> 3 [0 1] root 1",
                                          "all_reduce fp32 3 -> 3 [0 1]"}));
  EXPECT_EQ(recording.calls_of(1), (Texts{"other fp32 3 -> 6 [0 1] root 1", "other fp32 6 -> 3 [0 1] root 1",
                                          "all_reduce fp32 3 -> 3 [0 1]"}));
  const std::vector<SpelledCall> calls = spelled_calls(recording.trace(), Rank{0});
  EXPECT_EQ(calls[0].name, "gather");
  EXPECT_EQ(calls[1].name, "scatter");
  EXPECT_EQ(calls[2].reduction, Reduction::avg);
}

TEST(RecordedCommunicator, WritesCallsThatWereIssuedAsOneOneByOne) {
  const Recording recording(2, [](Communicator& world, Recorder&, CommClock& clock) {
    const GroupRank peer{1 - world.rank().value};
    std::vector<float> sent(70'000);
    std::vector<float> received(70'000);
    CommCall send = call_on(CommKind::send, sent, 70'000, 0);
    CommCall recv = call_on(CommKind::recv, received, 0, 70'000);
    send.peer = recv.peer = peer;
    const std::vector<CommCall> calls{send, recv, {.kind = CommKind::barrier}};
    const std::unique_ptr<Work> work = world.start_group(calls);
    work->wait();
    work->wait();
    EXPECT_EQ(clock.calls[static_cast<std::size_t>(CommKind::send)], 1);
    EXPECT_EQ(clock.calls[static_cast<std::size_t>(CommKind::recv)], 1);
  });
  EXPECT_EQ(recording.calls_of(0), (Texts{"send fp32 70000 -> 0 [0 1]", "recv fp32 0 -> 70000 [1 0]",
                                          "barrier uint8 0 -> 0 [0 1]"}));
  for (const RankStream& stream : recording.trace().streams) {
    ASSERT_EQ(stream.times.size(), 3U);
    EXPECT_EQ(stream.times[0], stream.times[1]);  // they end together
    EXPECT_EQ(stream.times[0], stream.times[2]);
    EXPECT_GT(stream.times[0].finished, stream.times[0].issued);
  }
}

TEST(RecordedCommunicator, WritesMessagesUnderTheOrderedPairOfGlobalRanks) {
  const Recording recording(3, [](Communicator& world, Recorder& recorder, CommClock& clock) {
    // Ranks 2 and 1, in this order: rank 0 of the pair is global rank 2.
    const std::int64_t self = world.rank().value;
    std::unique_ptr<Communicator> part = world.split(self == 0 ? -1 : 0, -self);
    if (part == nullptr) {
      return;
    }
    const std::unique_ptr<Communicator> pair = recorded(std::move(part), Axis::pp, recorder, clock);
    std::vector<float> buffer(7);
    CommCall call{.kind = self == 2 ? CommKind::send : CommKind::recv,
                  .dtype = DType::fp32,
                  .input_buffer = buffer.data(),
                  .output_buffer = buffer.data(),
                  .peer = GroupRank{self == 2 ? 1 : 0}};
    (self == 2 ? call.input : call.output) = Elements{7};
    pair->run(call);
    pair->run(call);
  });
  EXPECT_EQ(recording.calls_of(0), Texts{});
  EXPECT_EQ(recording.calls_of(1), (Texts{"recv fp32 0 -> 7 [2 1]", "recv fp32 0 -> 7 [2 1]"}));
  EXPECT_EQ(recording.calls_of(2), (Texts{"send fp32 7 -> 0 [2 1]", "send fp32 7 -> 0 [2 1]"}));
  EXPECT_EQ(recording.trace().groups.axis(recording.trace().ops().back().group), Axis::pp);
}

TEST(RecordedCommunicator, OfOneRankWritesAllButBarriers) {
  const Recording recording(1, [](Communicator& world, Recorder&, CommClock& clock) {
    std::vector<float> buffer(4);
    world.run(call_on(CommKind::all_reduce, buffer, 4, 4));
    world.barrier();
    EXPECT_EQ(clock.calls[static_cast<std::size_t>(CommKind::barrier)], 0);
  });
  EXPECT_EQ(recording.calls_of(0), Texts{"all_reduce fp32 4 -> 4 [0]"});
}

TEST(RecordedCommunicator, WritesACallOnceHoweverOftenItIsWaitedFor) {
  const Recording recording(2, [](Communicator& world, Recorder&, CommClock& clock) {
    std::vector<float> buffer(4);
    const std::unique_ptr<Work> first = world.start(call_on(CommKind::all_reduce, buffer, 1, 1));
    const std::unique_ptr<Work> second = world.start({.kind = CommKind::barrier});
    second->wait();
    first->wait();
    first->wait();
    EXPECT_EQ(clock.calls[static_cast<std::size_t>(CommKind::all_reduce)], 1);
    EXPECT_EQ(clock.calls[static_cast<std::size_t>(CommKind::barrier)], 1);
  });
  EXPECT_EQ(recording.calls_of(1), (Texts{"all_reduce fp32 1 -> 1 [0 1]", "barrier uint8 0 -> 0 [0 1]"}));
  for (const SpelledCall& call : spelled_calls(recording.trace(), Rank{1})) {
    EXPECT_GE(call.duration, 0) << text_of(call);
  }
}

/// Waits until the clock of the process advances.
void spend_time() {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() == start) {
  }
}

/// A call whose transport reports when its data moved.
class MovedWork final : public Work {
 public:
  explicit MovedWork(const MovedTimes& moved) : moved_(moved) {}
  void wait() override {}
  bool is_complete() override { return true; }
  std::optional<MovedTimes> moved() const override { return moved_; }

 private:
  MovedTimes moved_;
};

/// Reports for each call that its data moved in the given interval, in nanoseconds after its issue.
class MovingCommunicator final : public Communicator {
 public:
  MovingCommunicator(std::int64_t from_ns, std::int64_t to_ns) : from_ns_(from_ns), to_ns_(to_ns) {}
  const std::vector<Rank>& members() const override { return members_; }
  GroupRank rank() const override { return GroupRank{0}; }
  std::unique_ptr<Work> start(const CommCall& /*call*/) override {
    const std::int64_t now_ns = Clock::of_process().now_ns();
    return std::make_unique<MovedWork>(MovedTimes{now_ns + from_ns_, now_ns + to_ns_});
  }
  std::unique_ptr<Communicator> split(std::int64_t /*color*/, std::int64_t /*key*/) override {
    return nullptr;
  }
  void abort(std::string_view /*reason*/) override {}

 private:
  std::vector<Rank> members_{Rank{0}, Rank{1}};
  std::int64_t from_ns_;
  std::int64_t to_ns_;
};

/// The times of one call of such a communicator that is waited for at once.
Times times_of_moved(std::int64_t from_ns, std::int64_t to_ns) {
  const ScratchDirectory directory;
  create_recording(directory / "t", {.producer = "test", .ranks = 1});
  {
    Recorder recorder(directory / "t", Rank{0});
    CommClock clock;
    const std::unique_ptr<Communicator> seen =
        recorded(std::make_unique<MovingCommunicator>(from_ns, to_ns), Axis::dp, recorder, clock);
    seen->start({.kind = CommKind::all_reduce})->wait();
  }
  finish_recording(directory / "t");
  const Result<Trace> trace = read_trace(directory / "t");
  EXPECT_TRUE(trace && trace->streams.size() == 1 && trace->streams[0].times.size() == 1);
  return trace->streams.at(0).times.at(0);
}

constexpr std::int64_t k_hour_ns = 3'600'000'000'000;

TEST(RecordedTimes, StartWhenTheDataDo) {
  // All of it after the issue and before the wait, within the clock's resolution.
  const Times times = times_of_moved(0, 0);
  EXPECT_GE(times.started, times.issued);
  EXPECT_EQ(times.finished, times.started);
}

TEST(RecordedTimes, StartWhenTheRankWaitsWhereDataMoveLater) {
  // An hour later than the wait: the rank is blocked from the wait on, and was not for longer than it took.
  const Times times = times_of_moved(k_hour_ns, 2 * k_hour_ns);
  EXPECT_GE(times.started, times.issued);
  EXPECT_LT(times.finished - times.issued, std::chrono::nanoseconds(k_hour_ns));
}

TEST(RecordedTimes, NeverStartBeforeTheIssue) {
  const Times times = times_of_moved(-k_hour_ns, 0);
  EXPECT_EQ(times.started, times.issued);
}

TEST(RecordedTimes, OfACallWithoutProgressAreThoseOfTheWait) {
  const Recording recording(2, [](Communicator& world, Recorder&, CommClock&) {
    std::vector<float> buffer(300'000);
    const std::unique_ptr<Work> work = world.start(call_on(CommKind::all_reduce, buffer, 300'000, 300'000));
    world.barrier();  // both have issued it and not waited
    work->wait();
  });
  for (const RankStream& stream : recording.trace().streams) {
    ASSERT_EQ(stream.times.size(), 2U);
    EXPECT_GT(stream.times[0].started, stream.times[0].issued);
    EXPECT_GE(stream.times[0].started, stream.times[1].issued);
  }
}

class SlowWork final : public Work {
 public:
  void wait() override { spend_time(); }
  bool is_complete() override { return true; }
};

/// A group of two whose other rank needs no calls.
class SlowCommunicator final : public Communicator {
 public:
  const std::vector<Rank>& members() const override { return members_; }
  GroupRank rank() const override { return GroupRank{0}; }
  std::unique_ptr<Work> start(const CommCall& call) override {
    if (call.kind == CommKind::reduce) {
      throw SystemError("the library failed");
    }
    if (call.kind == CommKind::all_gather) {
      spend_time();
    }
    return std::make_unique<SlowWork>();
  }
  std::unique_ptr<Communicator> split(std::int64_t /*color*/, std::int64_t /*key*/) override {
    return std::make_unique<SlowCommunicator>();
  }
  void abort(std::string_view reason) override { throw SystemError(std::string(reason)); }

 private:
  std::vector<Rank> members_{Rank{0}, Rank{1}};
};

/// A slow communicator of two ranks, recorded by rank 0.
class SlowRecording {
 public:
  explicit SlowRecording(std::int64_t ranks) : recorder(created(directory / "t", ranks), Rank{0}) {}

 private:
  static std::filesystem::path created(const std::filesystem::path& path, std::int64_t ranks) {
    create_recording(path, {.producer = "test", .description = "", .framework = "commlens", .ranks = ranks});
    return path;
  }

 public:
  const ScratchDirectory directory;
  Recorder recorder;
  CommClock clock;
  const std::unique_ptr<Communicator> seen =
      recorded(std::make_unique<SlowCommunicator>(), Axis::dp, recorder, clock);
};

TEST(RecordedCommunicator, AddsTheTimeInsideStartAndWaitByKind) {
  SlowRecording slow(2);
  const auto blocked = [&](CommKind kind) {
    return slow.clock.blocked[static_cast<std::size_t>(kind)].count();
  };

  const std::unique_ptr<Work> gather = slow.seen->start({.kind = CommKind::all_gather});
  const std::int64_t after_start = blocked(CommKind::all_gather);
  EXPECT_GT(after_start, 0);
  EXPECT_EQ(blocked(CommKind::all_to_all), 0);
  gather->wait();
  EXPECT_GT(blocked(CommKind::all_gather), after_start);
  slow.seen->run({.kind = CommKind::all_to_all});
  EXPECT_GT(blocked(CommKind::all_to_all), 0);
  EXPECT_EQ(blocked(CommKind::all_reduce), 0);
}

TEST(RecordedCommunicator, LeavesACallThatFailedWithoutAnEnd) {
  SlowRecording slow(1);
  slow.seen->run({.kind = CommKind::all_gather});
  EXPECT_THROW(slow.seen->start({.kind = CommKind::reduce}), SystemError);
  slow.recorder.close();
  finish_recording(slow.directory / "t");
  const Result<Trace> trace = read_trace(slow.directory / "t");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->provenance.skipped, (std::map<std::string, std::int64_t>{{"unfinished call", 1}}));
}

TEST(RecordedCommunicator, PassesACallWithAnInvalidPeerToTheTransport) {
  const Recording recording(2, [](Communicator& world, Recorder&, CommClock&) {
    std::vector<float> buffer(4);
    CommCall call = call_on(CommKind::send, buffer, 4, 0);
    call.peer = GroupRank{2};
    EXPECT_THROW(world.run(call), SystemError);
    call = call_on(CommKind::broadcast, buffer, 4, 4);
    call.peer = GroupRank{-1};
    EXPECT_THROW(world.run(call), SystemError);
    world.barrier();
  });
  EXPECT_EQ(recording.calls_of(0), Texts{"barrier uint8 0 -> 0 [0 1]"});
}

TEST(RecordedCommunicator, PassesFailuresSplitsAndAbortsOn) {
  SlowRecording slow(2);
  EXPECT_THROW(slow.seen->start({.kind = CommKind::reduce}), SystemError);
  EXPECT_THROW(slow.seen->abort("enough"), SystemError);
  const std::unique_ptr<Communicator> part = slow.seen->split(0, 0);
  part->barrier();
  EXPECT_EQ(slow.clock.calls[static_cast<std::size_t>(CommKind::barrier)], 0);  // not decorated
}

class RecordedConformance : public ::testing::TestWithParam<conformance::Case> {};

TEST_P(RecordedConformance, HoldsForThreeRanks) {
  const Recording recording(
      3, [](Communicator& world, Recorder&, CommClock&) { GetParam().check(world, conformance::Target{}); });
}

INSTANTIATE_TEST_SUITE_P(Threads, RecordedConformance, ::testing::ValuesIn(conformance::k_cases),
                         [](const auto& made) { return std::string(made.param.name); });

// The pipeline of the engine has one communicator for activations and one for gradients, of the same ranks.
TEST(RecordedCommunicator, DistinguishesCommunicatorsOfTheSameRanks) {
  const ScratchDirectory directory;
  create_recording(directory / "t",
                   {.producer = "test", .description = "", .framework = "commlens", .ranks = 2});
  run_thread_ranks(2, [&](std::unique_ptr<Communicator> world) {
    Recorder recorder(directory / "t", Rank{world->rank().value});
    CommClock clock;
    const auto forward =
        recorded(world->split(0, world->rank().value), Axis::pp, recorder, clock, CommunicatorId{1});
    const auto backward =
        recorded(world->split(0, world->rank().value), Axis::pp, recorder, clock, CommunicatorId{2});
    std::int32_t box = 0;
    for (const auto& communicator : {&forward, &backward, &backward}) {
      const bool sends = world->rank().value == 0;
      (*communicator)
          ->run({.kind = sends ? CommKind::send : CommKind::recv,
                 .dtype = DType::int32,
                 .input_buffer = sends ? &box : nullptr,
                 .output_buffer = sends ? nullptr : &box,
                 .input = Elements{sends ? 1 : 0},
                 .output = Elements{sends ? 0 : 1},
                 .peer = GroupRank{sends ? 1 : 0}});
    }
  });
  const Result<Trace> trace = read_trace(directory / "t");
  ASSERT_TRUE(trace) << trace.error().message;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    std::vector<CommunicatorId> communicators;
    for (const SpelledCall& call : spelled_calls(*trace, Rank{rank})) {
      communicators.push_back(call.communicator);
    }
    EXPECT_EQ(communicators, (std::vector{CommunicatorId{1}, CommunicatorId{2}, CommunicatorId{2}}));
  }
  EXPECT_EQ(trace->groups.count(), 2U);  // the two pairs: nothing was called on all members
}

}  // namespace
}  // namespace commlens
