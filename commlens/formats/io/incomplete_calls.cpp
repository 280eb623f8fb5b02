#include "commlens/formats/io/incomplete_calls.hpp"

#include <vector>

#include <fmt/format.h>

#include "commlens/trace/json_text.hpp"

namespace commlens::formats {
namespace {

/// Whether each op lacks it: traces have few ops and many calls.
std::vector<bool> ops_that_lack(const Trace& trace, const std::function<bool(const CommOp&)>& lacks) {
  std::vector<bool> lacking;
  lacking.reserve(trace.ops().size());
  for (const CommOp& op : trace.ops()) {
    lacking.push_back(lacks(op));
  }
  return lacking;
}

struct RankSpan {
  Rank first;
  std::int64_t count;
};

void add_stream(IncompleteCalls& incomplete, const Trace& trace, const RankStream& stream, RankSpan ranks,
                const std::vector<bool>& lacking) {
  for (const CommEvent& event : stream.events) {
    if (!lacking[static_cast<std::size_t>(event.op)]) {
      continue;
    }
    if (incomplete.op == nullptr) {
      incomplete.rank = ranks.first;
      incomplete.op = &trace.op(event.op);
    }
    incomplete.calls += ranks.count;
  }
}

}  // namespace

IncompleteCalls incomplete_calls(const Trace& trace, const std::function<bool(const CommOp&)>& lacks) {
  const std::vector<bool> lacking = ops_that_lack(trace, lacks);
  IncompleteCalls incomplete;
  for (const RankStream& stream : trace.streams) {
    add_stream(incomplete, trace, stream, {stream.ranks.first, stream.ranks.count()}, lacking);
  }
  return incomplete;
}

IncompleteCalls incomplete_calls_of(const Trace& trace, Rank rank,
                                    const std::function<bool(const CommOp&)>& lacks) {
  IncompleteCalls incomplete;
  if (const RankStream* const stream = trace.stream_of(rank); stream != nullptr) {
    add_stream(incomplete, trace, *stream, {rank, 1}, ops_that_lack(trace, lacks));
  }
  return incomplete;
}

std::string text_of(const Trace& trace, const IncompleteCalls& incomplete) {
  if (incomplete.op == nullptr) {
    return "0 calls";
  }
  return fmt::format("{} {} (the first: {} of rank {} on {})", incomplete.calls,
                     incomplete.calls == 1 ? "call" : "calls", name_of(incomplete.op->kind),
                     incomplete.rank.value, group_text(trace, incomplete.op->group));
}

std::string group_text(const Trace& trace, GroupId group) {
  const std::int64_t size = trace.groups.size(group);
  const std::string& name = trace.groups.name(group);
  return fmt::format("{}{}{}",
                     size < 1    ? "a group of unknown size"
                     : size == 1 ? "a group of 1 rank"
                                 : fmt::format("a group of {} ranks", size),
                     name.empty() ? "" : ", ", valid_utf8(name));
}

}  // namespace commlens::formats
