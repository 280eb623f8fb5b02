#include "commlens/compare/whole_job.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/compare/canonical.hpp"
#include "commlens/compare/scope.hpp"
#include "commlens/compare/stream_calls.hpp"

namespace commlens {
namespace {

GroupDetail detail_of(const GroupTable& groups, GroupId group) {
  return groups.knows_members(group) && groups.size(group) > 0 ? GroupDetail::members
         : groups.size(group) > 0                              ? GroupDetail::size
                                                               : GroupDetail::nothing;
}

/// The number of calls of each op in a stream.
struct OpCounts {
  std::vector<std::int64_t> of_op;
  std::int64_t ignored = 0;
};

/// One of the two traces.
class View {
 public:
  View(const Trace& trace, const CompareOptions& options, CanonicalGroups& canonical)
      : trace_(trace), options_(options), groups_(trace, canonical) {
    iterations_ = trace.iterations();
    if (options.iterations && has_iterations()) {
      const auto [first, last] = *options.iterations;
      std::erase_if(iterations_, [&](Iteration each) { return each < first || each > last; });
      is_part_ = true;
    }
  }

  bool has_iterations() const { return !iterations_.empty(); }
  const std::vector<Iteration>& iterations() const { return iterations_; }
  const Trace& trace() const { return trace_; }
  ResolvedGroups& groups() { return groups_; }

  OpCounts counts_of(const RankStream& stream) const {
    OpCounts counts;
    counts.of_op.resize(trace_.ops().size(), 0);
    for (const CommEvent& event : stream.events) {
      if (!is_wanted(event.iteration)) {
        continue;
      }
      if (is_ignored(trace_.op(event.op), options_)) {
        ++counts.ignored;
      } else {
        ++counts.of_op[static_cast<std::size_t>(event.op)];
      }
    }
    return counts;
  }

 private:
  bool is_wanted(Iteration iteration) const {
    return !is_part_ || std::binary_search(iterations_.begin(), iterations_.end(), iteration);
  }

  const Trace& trace_;
  const CompareOptions& options_;
  ResolvedGroups groups_;
  std::vector<Iteration> iterations_;
  bool is_part_ = false;  // some iterations only
};

/// Properties that calls of a rank must share to be compared with each other.
struct Family {
  CommKind kind = CommKind::other;
  std::string name;
  std::int64_t group_size = 0;
  std::int64_t group = 0;  // CanonicalGroup, if both sides have the members
  friend auto operator<=>(const Family&, const Family&) = default;
};

/// Calls of one message size, known to within `slack`.
struct SizedCalls {
  std::int64_t bytes = 0;
  std::int64_t slack = 0;
  std::int64_t calls = 0;
  std::int64_t least() const { return slack >= bytes ? 0 : bytes - slack; }
  std::int64_t most() const { return saturating_sum(bytes, slack); }
};

bool overlap(const SizedCalls& a, const SizedCalls& b) {
  return a.least() <= b.most() && b.least() <= a.most();
}

/// The calls of one family on each side.
struct FamilyCalls {
  std::vector<SizedCalls> a;
  std::vector<SizedCalls> b;
};

class WholeJobComparer {
 public:
  WholeJobComparer(const Trace& a, const Trace& b, const CompareOptions& options)
      : a_(a, options, canonical_), b_(b, options, canonical_) {}

  Result<WholeJobComparison> run() {
    const Result<Scope> scope = common_ranks(a_.trace(), b_.trace());
    if (!scope) {
      return tl::unexpected(scope.error());
    }
    result_.b_lacks_iterations = b_.trace().iterations().empty();
    const View& known = result_.b_lacks_iterations ? a_ : b_;
    result_.iterations = known.iterations();
    if (result_.iterations.empty()) {
      return failure(fmt::format("no requested iteration is in {}: it has {}; change --iteration",
                                 result_.b_lacks_iterations ? "A" : "B",
                                 to_text(known.trace().iterations())));
    }
    result_.ranks = scope->ranks;
    result_.ranks_only_a = scope->ranks_only_a;
    result_.ranks_only_b = scope->ranks_only_b;
    find_detail(*scope);
    for (const Segment& segment : scope->segments) {
      add(segment);
    }
    finish();
    return std::move(result_);
  }

 private:
  void find_detail(const Scope& scope) {
    for (const Segment& segment : scope.segments) {
      find_detail(a_, a_.counts_of(*segment.a));
      find_detail(b_, b_.counts_of(*segment.b));
    }
  }

  void find_detail(const View& view, const OpCounts& counts) {
    for (std::size_t op = 0; op < counts.of_op.size(); ++op) {
      if (counts.of_op[op] > 0) {
        const CommOp& call = view.trace().ops()[op];
        GroupDetail& detail = is_point_to_point(call.kind) ? result_.messages : result_.collectives;
        detail = std::max(detail, detail_of(view.trace().groups, call.group));
      }
    }
  }

  Family family_of(View& view, const CommOp& op, Rank rank) {
    Family family{op.kind, op.kind == CommKind::other ? view.trace().names.text(op.name) : "", 0, 0};
    const bool is_message = is_point_to_point(op.kind);
    const GroupDetail detail = is_message ? result_.messages : result_.collectives;
    family.group_size = is_message                       ? 2
                        : detail == GroupDetail::nothing ? 0
                                                         : view.trace().groups.size(op.group);
    family.group = detail == GroupDetail::members ? static_cast<std::int64_t>(view.groups().of(op, rank)) : 0;
    return family;
  }

  void add(const Segment& segment) {
    const OpCounts a = a_.counts_of(*segment.a);
    const OpCounts b = b_.counts_of(*segment.b);
    result_.ignored += (a.ignored + b.ignored) * segment.ranks.count();
    for (const Rank rank : segment.ranks) {
      std::map<Family, FamilyCalls> families;
      collect(a_, a, rank, [&](Family family) -> auto& { return families[std::move(family)].a; });
      collect(b_, b, rank, [&](Family family) -> auto& { return families[std::move(family)].b; });
      for (auto& [family, calls] : families) {
        match(family, calls);
      }
    }
  }

  template <typename Place>
  void collect(View& view, const OpCounts& counts, Rank rank, const Place& place_of) {
    for (std::size_t op = 0; op < counts.of_op.size(); ++op) {
      if (counts.of_op[op] == 0) {
        continue;
      }
      const CommOp& call = view.trace().ops()[op];
      const std::int64_t slack = call.match == Match::count ? INT64_MAX : call.rounding.value;
      place_of(family_of(view, call, rank)).push_back({message_bytes(call).value, slack, counts.of_op[op]});
    }
  }

  /// Matches equal sizes first, then sizes that may be equal; the rest remains unmatched.
  void match(const Family& family, FamilyCalls& calls) {
    const auto by_size = [](const SizedCalls& left, const SizedCalls& right) {
      return std::tuple(left.bytes, left.slack) < std::tuple(right.bytes, right.slack);
    };
    std::sort(calls.a.begin(), calls.a.end(), by_size);
    std::sort(calls.b.begin(), calls.b.end(), by_size);
    for (std::size_t i = 0, j = 0; i < calls.a.size() && j < calls.b.size();) {
      if (calls.a[i].bytes == calls.b[j].bytes) {
        pair(family, calls.a[i], calls.b[j]);
        ++(calls.a[i].calls == 0 ? i : j);
      } else {
        ++(calls.a[i].bytes < calls.b[j].bytes ? i : j);
      }
    }
    match_loosely(family, calls);
    for (const SizedCalls& left : calls.a) {
      row_of(family, left.bytes).calls_a += left.calls;
    }
    for (const SizedCalls& left : calls.b) {
      row_of(family, left.bytes).calls_b += left.calls;
    }
  }

  /// Calls with the lowest upper bound are matched first, with those of the lowest upper bound, which
  /// maximises the pairs.
  void match_loosely(const Family& family, FamilyCalls& calls) {
    const auto is_used_up = [](const SizedCalls& each) { return each.calls == 0; };
    std::erase_if(calls.a, is_used_up);
    std::erase_if(calls.b, is_used_up);
    const auto by_most = [](const SizedCalls& left, const SizedCalls& right) {
      return left.most() < right.most();
    };
    std::stable_sort(calls.a.begin(), calls.a.end(), by_most);
    std::stable_sort(calls.b.begin(), calls.b.end(), by_most);
    for (SizedCalls& a : calls.a) {
      for (auto b = calls.b.begin(); b != calls.b.end() && a.calls > 0; ++b) {
        if (overlap(a, *b)) {
          pair(family, a, *b);
        }
      }
    }
  }

  void pair(const Family& family, SizedCalls& a, SizedCalls& b) {
    const std::int64_t both = std::min(a.calls, b.calls);
    if (both == 0) {
      return;
    }
    a.calls -= both;
    b.calls -= both;
    WholeJobRow& row = row_of(family, a.bytes);
    row.calls_a += both;
    row.calls_b += both;
    row.exact += both;
  }

  WholeJobRow& row_of(const Family& family, std::int64_t bytes) {
    const auto [found, is_new] = rows_.try_emplace({family.kind, family.name, family.group_size, bytes});
    if (is_new) {
      found->second = {family.kind, family.name, family.group_size, Bytes{bytes}, 0, 0, 0};
    }
    return found->second;
  }

  void finish() {
    for (const auto& [key, row] : rows_) {
      if (row.calls_a == 0 && row.calls_b == 0) {
        continue;
      }
      result_.calls_a += row.calls_a;
      result_.calls_b += row.calls_b;
      result_.exact += row.exact;
      result_.rows.push_back(row);
    }
    const auto bytes = [](const WholeJobRow& row) {
      return saturating_product(row.message, std::max(row.calls_a, row.calls_b));
    };
    std::stable_sort(result_.rows.begin(), result_.rows.end(),
                     [&](const WholeJobRow& left, const WholeJobRow& right) {
                       return left.equal() != right.equal() ? right.equal() : bytes(left) > bytes(right);
                     });
  }

  CanonicalGroups canonical_;
  View a_;
  View b_;
  std::map<std::tuple<CommKind, std::string, std::int64_t, std::int64_t>, WholeJobRow> rows_;
  WholeJobComparison result_;
};

}  // namespace

bool one_lacks_iterations(const Trace& a, const Trace& b) {
  return a.iterations().empty() != b.iterations().empty() && !is_silent(a) && !is_silent(b);
}

Result<WholeJobComparison> compare_whole_job(const Trace& a, const Trace& b, const CompareOptions& options) {
  return WholeJobComparer(a, b, options).run();
}

}  // namespace commlens
