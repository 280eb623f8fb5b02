#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "commlens/base/test_support.hpp"
#include "commlens/trace/trace.hpp"

// For tests only, of this floor and the floors above; the library does not include it.
namespace commlens::test_support {

/// The whole content of a file.
inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Everything a call says, with ids resolved, so that calls of two traces can be compared.
struct SpelledCall {
  CommKind kind;
  DType dtype;
  Phase phase;
  Match match;
  std::vector<Rank> group;
  CommunicatorId communicator;
  std::int64_t input;
  std::int64_t output;
  std::int64_t root;  // -1: none
  std::int64_t rounding;
  std::string tag;
  std::string rule;
  std::string name;
  Reduction reduction;
  Algorithm algorithm;
  Protocol protocol;
  std::optional<bool> blocking;
  std::string site;
  std::string note;
  Iteration iteration;
  std::int32_t micro_batch;
  std::int64_t started;  // 0 without times
  std::int64_t duration;
  friend auto operator<=>(const SpelledCall&, const SpelledCall&) = default;
};

/// The calls of one rank, in issue order.
inline std::vector<SpelledCall> spelled_calls(const Trace& trace, Rank rank) {
  std::vector<SpelledCall> calls;
  const RankStream* const stream = trace.stream_of(rank);
  for (std::size_t row = 0; stream != nullptr && row < stream->events.size(); ++row) {
    const CommEvent& event = stream->events[row];
    const CommOp& op = trace.op(event.op);
    const Times times = stream->times.empty() ? Times{} : stream->times[row];
    calls.push_back({op.kind,
                     op.dtype,
                     op.phase,
                     op.match,
                     trace.groups.members(op.group, rank),
                     trace.groups.communicator(op.group),
                     op.input.value,
                     op.output.value,
                     op.root ? op.root->value : -1,
                     op.rounding.value,
                     trace.tags.text(op.tag),
                     trace.rule(op.rule).name,
                     trace.names.text(op.name),
                     op.reduction,
                     op.algorithm,
                     op.protocol,
                     op.blocking,
                     trace.names.text(op.site),
                     trace.names.text(op.note),
                     event.iteration,
                     event.micro_batch,
                     times.started.count(),
                     (times.finished - times.started).count()});
  }
  return calls;
}

/// Traces of small jobs with every feature of the format, from a seed.
class RandomTrace {
 public:
  explicit RandomTrace(std::uint64_t seed) : random_(seed) {}

  /// With several communicators of the same ranks, for formats that tell them apart.
  RandomTrace&& with_communicators() && {
    has_communicators_ = true;
    return std::move(*this);
  }

  Trace make() {
    const Mesh mesh{{Axis::pp, between(1, 3)}, {Axis("stage_2"), between(1, 4)}, {Axis::tp, between(1, 2)}};
    const bool has_mesh = coin();
    Trace trace = has_mesh ? Trace(mesh) : Trace();
    trace.provenance.source = static_cast<Source>(between(0, 4));
    trace.provenance.description = word();
    trace.provenance.verified = coin();
    trace.provenance.skipped[word() + "!"] = between(0, 1000);
    const std::int64_t step = has_mesh && coin() ? between(1, mesh.ranks()) : 1;
    for (std::int64_t first = 0; first < mesh.ranks(); first += step) {
      const std::int64_t last = std::min(first + step, mesh.ranks()) - 1;
      trace.streams.push_back(stream(trace, {Rank{first}, Rank{last}}));
    }
    return trace;
  }

 private:
  std::int64_t between(std::int64_t lowest, std::int64_t highest) {
    return std::uniform_int_distribution<std::int64_t>(lowest, highest)(random_);
  }
  bool coin() { return between(0, 1) == 1; }
  std::string word() {
    static const std::vector<std::string> words = {"",           "layer 3", "a\"b\\c", "tab\there",
                                                   "ünï \u2192", "x,y",     "{[",      "\x01"};
    return words[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(words.size()) - 1))];
  }

  GroupId group(Trace& trace, RankRange ranks, bool is_pair, bool sends) {
    const std::optional<Mesh> mesh = trace.groups.mesh();
    GroupPattern pattern;
    pattern.axis = Axis::dp;
    if (mesh && is_pair) {
      pattern.shape = sends ? GroupPattern::Shape::to_next : GroupPattern::Shape::from_previous;
      pattern.along = coin() ? Axis::pp : Axis("stage_2");
      return trace.groups.intern(pattern);
    }
    if (mesh) {
      pattern.spans = {{Axis::pp, {coin() ? Span::Shape::all : Span::Shape::own}},
                       {Axis("stage_2"), {Span::Shape::all}},
                       {Axis::tp, {Span::Shape::block, mesh->size(Axis::tp)}}};
      return trace.groups.intern(pattern);
    }
    const Rank other{between(0, 40)};
    if (is_pair) {
      return trace.groups.intern(sends ? std::vector{ranks.first, other} : std::vector{other, ranks.first},
                                 Axis::unknown, communicator());
    }
    std::vector<Rank> members{ranks.first};
    while (coin()) {
      members.push_back(Rank{members.back().value + between(1, 5)});
    }
    return trace.groups.intern(members, coin() ? Axis::tp : Axis::unknown, communicator());
  }

  CommOp op(Trace& trace, RankRange ranks) {
    CommOp op;
    op.kind = static_cast<CommKind>(between(0, 9));
    op.dtype = static_cast<DType>(between(0, 9));
    op.phase = static_cast<Phase>(between(0, 5));
    op.match = static_cast<Match>(between(0, 2));
    op.reduction = static_cast<Reduction>(between(0, 15));
    op.algorithm = static_cast<Algorithm>(between(0, 7));
    op.protocol = static_cast<Protocol>(between(0, 3));
    op.blocking = coin() ? std::nullopt : std::optional(coin());
    op.group = group(trace, ranks, is_point_to_point(op.kind), op.kind == CommKind::send);
    op.input.value = between(0, 1 << 20);
    op.output.value = coin() ? between(0, std::int64_t{1} << 46) : 0;
    if (op.kind == CommKind::broadcast || op.kind == CommKind::reduce) {
      op.root = GroupRank{between(0, trace.groups.size(op.group) - 1)};
    }
    op.rounding.value = coin() ? between(0, 1000) : 0;
    op.tag = trace.tags.intern(word());
    op.rule = trace.intern(Rule{.name = word(), .source = {}, .verified = true});
    op.name = trace.names.intern(word());
    op.site = trace.names.intern(word());
    op.note = trace.names.intern(word());
    return op;
  }

  RankStream stream(Trace& trace, RankRange ranks) {
    RankStream stream{ranks, {}, {}};
    const bool has_times = coin();
    const std::int64_t calls = between(1, 30);
    for (std::int64_t call = 0; call < calls; ++call) {
      const auto iteration = static_cast<Iteration>(between(-2, 3));
      stream.events.push_back({trace.intern(op(trace, ranks)),
                               iteration < -1 ? k_unknown_iteration : iteration,
                               static_cast<std::int32_t>(between(-1, 4))});
      if (has_times) {
        const std::chrono::nanoseconds started(between(-1000, 1'000'000'000'000));
        stream.times.push_back({started, started, started + std::chrono::nanoseconds(between(0, 5000))});
      }
    }
    for (std::int64_t started = between(-5000, 5000); has_times && coin(); started += between(0, 5000)) {
      stream.compute.push_back({std::chrono::nanoseconds(started),
                                std::chrono::nanoseconds(started + between(0, 5000)),
                                coin() ? static_cast<Iteration>(between(-1, 3)) : k_unknown_iteration});
    }
    std::sort(stream.compute.begin(), stream.compute.end());
    return stream;
  }

  CommunicatorId communicator() {
    return has_communicators_ ? CommunicatorId{static_cast<std::uint64_t>(between(0, 2))} : k_no_communicator;
  }

  std::mt19937_64 random_;
  bool has_communicators_ = false;
};

}  // namespace commlens::test_support
