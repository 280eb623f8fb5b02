#include "commlens/cli/merge_traces.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace commlens {
namespace {

/// Adds the calls of `from` to `into`, with descriptions numbered as `into` has them.
void append(const Trace& from, Trace& into) {
  std::vector<OpId> ids;
  for (const CommOp& op : from.ops()) {
    CommOp copy = op;
    const std::optional<GroupPattern> pattern = from.groups.pattern(op.group);
    copy.group = pattern
                     ? into.groups.intern(*pattern)
                     : into.groups.intern(from.groups.members(op.group, Rank{0}), from.groups.axis(op.group));
    copy.tag = into.tags.intern(from.tags.text(op.tag));
    copy.name = into.names.intern(from.names.text(op.name));
    copy.rule = into.intern(from.rule(op.rule));
    ids.push_back(into.intern(copy));
  }
  for (const RankStream& stream : from.streams) {
    RankStream copy = stream;
    for (CommEvent& event : copy.events) {
      event.op = ids[static_cast<std::size_t>(event.op)];
    }
    into.streams.push_back(std::move(copy));
  }
  for (const auto& [reason, count] : from.provenance.skipped) {
    into.provenance.skipped[reason] += count;
  }
  into.provenance.verified = into.provenance.verified && from.provenance.verified;
}

bool mixes_accounting(const Trace& a, const Trace& b) {
  return a.provenance.accounting != b.provenance.accounting;
}

}  // namespace

Result<Trace> merged(std::vector<Trace> traces, const std::vector<std::string>& names) {
  Trace result = std::move(traces.front());
  std::vector<std::pair<RankRange, std::string>> owners;
  for (const RankStream& stream : result.streams) {
    owners.emplace_back(stream.ranks, names.front());
  }
  for (std::size_t at = 1; at < traces.size(); ++at) {
    const Trace& next = traces[at];
    if (next.groups.mesh() != result.groups.mesh() || mixes_accounting(next, result)) {
      return failure(
          fmt::format("{} and {} are of different jobs; import them one by one", names[0], names[at]));
    }
    for (const RankStream& stream : next.streams) {
      owners.emplace_back(stream.ranks, names[at]);
    }
    append(next, result);
  }
  std::sort(owners.begin(), owners.end());
  for (std::size_t at = 1; at < owners.size(); ++at) {
    if (owners[at].first.first <= owners[at - 1].first.last) {
      return failure(fmt::format("rank {} is in both {} and {}; give each rank once",
                                 owners[at].first.first.value, owners[at - 1].second, owners[at].second));
    }
  }
  std::sort(result.streams.begin(), result.streams.end(),
            [](const RankStream& a, const RankStream& b) { return a.ranks.first < b.ranks.first; });
  return result;
}

}  // namespace commlens
