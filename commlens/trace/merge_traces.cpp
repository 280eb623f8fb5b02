#include "commlens/trace/merge_traces.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>

namespace commlens {
namespace {

/// Members of hidden groups, where they are known by now.
using FoundMembers = std::map<GroupId, std::vector<Rank>>;

GroupId copied_group(const GroupTable& from, GroupId group, const FoundMembers& found, GroupTable& into) {
  if (const auto members = found.find(group); members != found.end()) {
    // The ranks were found because no two groups have this name.
    return into.intern(members->second, from.axis(group), communicator_named(from.name(group)));
  }
  if (const GroupPattern* const pattern = from.pattern(group); pattern != nullptr) {
    return into.intern(*pattern);
  }
  if (!from.knows_members(group) && from.size(group) > 0) {
    return into.intern_hidden(from.size(group), from.name(group), from.axis(group));
  }
  return into.intern(from.members(group, Rank{0}), from.axis(group), from.communicator(group));
}

/// Adds the calls of `from` to `into`, with descriptions numbered as `into` has them.
void append(const Trace& from, const FoundMembers& found, Trace& into) {
  std::vector<OpId> ids;
  for (const CommOp& op : from.ops()) {
    CommOp copy = op;
    copy.group = copied_group(from.groups, op.group, found, into.groups);
    copy.tag = into.tags.intern(from.tags.text(op.tag));
    for (NameId CommOp::* const name : {&CommOp::name, &CommOp::site, &CommOp::note}) {
      copy.*name = into.names.intern(from.names.text(op.*name));
    }
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
    into.provenance.skip(reason, count);
  }
  for (const auto& [reason, count] : from.provenance.assumed) {
    into.provenance.assume(reason, count);
  }
  into.provenance.verified = into.provenance.verified && from.provenance.verified;
  into.provenance.job_ranks = std::max(into.provenance.job_ranks, from.provenance.job_ranks);
}

/// What a rank calls on a group, in order: the kinds and how many.
struct CallsOfRank {
  std::uint64_t kinds = 0;
  std::int64_t calls = 0;
  void add(CommKind kind) {
    kinds = kinds * 31 + static_cast<std::uint64_t>(kind) + 1;
    ++calls;
  }
  friend bool operator==(const CallsOfRank&, const CallsOfRank&) = default;
};

/// Of named hidden groups: the ranks that called collectives on them, where they are as many as its members
/// and made the same calls.
FoundMembers found_members(const Trace& trace) {
  std::map<GroupId, std::map<Rank, CallsOfRank>> callers;
  for (const RankStream& stream : trace.streams) {
    for (const CommEvent& event : stream.events) {
      const CommOp& op = trace.op(event.op);
      const bool is_sought = !is_point_to_point(op.kind) && !trace.groups.name(op.group).empty();
      if (is_sought && stream.ranks.count() == 1) {
        callers[op.group][stream.ranks.first].add(op.kind);
      }
    }
  }
  FoundMembers found;
  for (const auto& [group, ranks] : callers) {
    const bool agree = std::all_of(ranks.begin(), ranks.end(), [&](const auto& caller) {
      return caller.second == ranks.begin()->second;
    });
    if (agree && static_cast<std::int64_t>(ranks.size()) == trace.groups.size(group)) {
      std::vector<Rank>& members = found[group];
      std::transform(ranks.begin(), ranks.end(), std::back_inserter(members),
                     [](const auto& caller) { return caller.first; });
    }
  }
  return found;
}

/// Why a trace cannot be one with those before it, which have become `before`. `stated`: the name of the one
/// that reports how many ranks the job has.
Result<void> check_fits(const Trace& next, const std::string& name, const Trace& before,
                        const std::string& first, const std::string& stated) {
  const std::int64_t ranks = before.provenance.job_ranks;
  const bool is_other_size =
      ranks != 0 && next.provenance.job_ranks != 0 && next.provenance.job_ranks != ranks;
  if (is_other_size || next.groups.mesh() != before.groups.mesh() ||
      next.provenance.accounting != before.provenance.accounting) {
    return failure(fmt::format("{} and {} are of different jobs; import them one by one",
                               is_other_size ? stated : first, name));
  }
  if (next.provenance.averaged_times != before.provenance.averaged_times) {
    return failure(
        fmt::format("{} and {}: one has the times of calls, the other averages; import them "
                    "one by one",
                    first, name));
  }
  return {};
}

using Owner = std::pair<RankRange, std::string>;  // ranks of a stream, and the name of its trace

/// Fails when a rank is in two streams.
Result<void> check_apart(std::vector<Owner> owners) {
  std::sort(owners.begin(), owners.end());
  const bool are_gapless =
      std::all_of(owners.begin(), owners.end(), [](const Owner& owner) { return owner.first.is_gapless(); });
  for (std::size_t at = 1; at < owners.size(); ++at) {
    // Ascending ranges overlap their neighbours if any; those with gaps may overlap any other.
    for (std::size_t before = are_gapless ? at - 1 : 0; before < at; ++before) {
      const std::vector<RankRange> both = intersection(owners[before].first, owners[at].first);
      if (!both.empty()) {
        return failure(fmt::format("rank {} is in both {} and {}; give each rank once",
                                   both.front().first.value, owners[before].second, owners[at].second));
      }
    }
  }
  return {};
}

}  // namespace

Result<Trace> merged(std::vector<Trace> traces, const std::vector<std::string>& names) {
  Trace result = std::move(traces.front());
  std::vector<Owner> owners;
  for (const RankStream& stream : result.streams) {
    owners.emplace_back(stream.ranks, names.front());
  }
  std::string stated = names.front();
  for (std::size_t at = 1; at < traces.size(); ++at) {
    const Trace& next = traces[at];
    if (const Result<void> fits = check_fits(next, names[at], result, names.front(), stated); !fits) {
      return tl::unexpected(fits.error());
    }
    if (result.provenance.job_ranks == 0) {
      stated = names[at];
    }
    for (const RankStream& stream : next.streams) {
      owners.emplace_back(stream.ranks, names[at]);
    }
    append(next, {}, result);
  }
  if (const Result<void> apart = check_apart(std::move(owners)); !apart) {
    return tl::unexpected(apart.error());
  }
  std::sort(result.streams.begin(), result.streams.end(),
            [](const RankStream& a, const RankStream& b) { return a.ranks.first < b.ranks.first; });
  if (traces.size() > 1) {
    result.provenance.description += fmt::format(" and {} more", traces.size() - 1);
  }
  return with_hidden_groups_resolved(std::move(result));
}

Trace with_hidden_groups_resolved(Trace trace) {
  const FoundMembers found = found_members(trace);
  if (found.empty()) {
    return trace;
  }
  Trace result = trace.groups.mesh() ? Trace(*trace.groups.mesh()) : Trace();
  append(trace, found, result);
  result.provenance = std::move(trace.provenance);
  result.provenance.assume("group whose ranks are taken to be those that called on it",
                           static_cast<std::int64_t>(found.size()));
  return result;
}

}  // namespace commlens
