#include "commlens/formats/join_profile.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/units.hpp"
#include "commlens/formats/io/file_rank.hpp"
#include "commlens/trace/merge_traces.hpp"

namespace commlens::formats {
namespace {

/// Events of all ranks that are assumed; more would fill memory.
constexpr std::int64_t k_most_assumed = 100'000'000;
/// Comparisons of two calls, some seconds of them.
constexpr std::int64_t k_most_compared = 2'000'000'000;

bool has_times(const Trace& trace) {
  return std::any_of(trace.streams.begin(), trace.streams.end(),
                     [](const RankStream& stream) { return !stream.times.empty(); });
}

bool says_rank(const Trace& trace) { return !trace.provenance.assumed.contains(k_rank_unsaid); }

/// A call as it is compared.
struct SharedCall {
  CommKind kind = CommKind::other;
  DType dtype = DType::uint8;
  std::int64_t input = 0;   // bytes
  std::int64_t output = 0;  // bytes
  std::int64_t group = 0;   // ranks; 0: not known
  std::int64_t root = -1;   // its rank; -1: none, or not known
};
using SharedCalls = std::vector<SharedCall>;

/// Readers give a call whose size they do not know 0 bytes. A barrier moves nothing.
bool says_size(const SharedCall& call) {
  return call.kind == CommKind::barrier || call.input != 0 || call.output != 0;
}
/// uint8 stands for types that are not known, and PyTorch has NCCL send others of one byte as it.
bool says_type(const SharedCall& call) { return call.kind == CommKind::barrier || size_of(call.dtype) > 1; }
bool says_all(const SharedCall& call) {
  return says_size(call) && says_type(call) && call.group > 0 && has_root(call.kind) == (call.root >= 0);
}

/// Whether the calls are the same in what both say, but for their roots: ranks of different groups have
/// different ones.
bool same_but_root(const SharedCall& a, const SharedCall& b) {
  if (a.kind != b.kind || (a.group > 0 && b.group > 0 && a.group != b.group)) {
    return false;
  }
  const bool same_size = (a.input == b.input && a.output == b.output) || !says_size(a) || !says_size(b);
  const bool same_type = a.dtype == b.dtype || !says_type(a) || !says_type(b);
  return a.kind == CommKind::barrier || (same_size && same_type);
}

bool same(const SharedCall& a, const SharedCall& b) {
  return same_but_root(a, b) && (a.root == b.root || a.root < 0 || b.root < 0);
}

SharedCalls shared_calls(const Trace& trace, const RankStream& stream) {
  SharedCalls calls;
  calls.reserve(stream.events.size());
  for (const CommEvent& event : stream.events) {
    const CommOp& op = trace.op(event.op);
    SharedCall call{op.kind, op.dtype, (op.input * op.dtype).value, (op.output * op.dtype).value,
                    trace.groups.size(op.group)};
    if (has_root(op.kind) && op.root && trace.groups.knows_members(op.group)) {
      // The two sides may order the members differently.
      const std::vector<Rank> members = trace.groups.members(op.group, stream.ranks.first);
      call.root = members.at(static_cast<std::size_t>(op.root->value)).value;
    }
    calls.push_back(call);
  }
  return calls;
}

std::string call_text(const SharedCalls& calls, std::size_t at) {
  if (at >= calls.size()) {
    return "missing";
  }
  const SharedCall& call = calls[at];
  std::string text(name_of(call.kind));
  if (call.kind != CommKind::barrier && says_size(call)) {
    text += fmt::format(" of {} to {} bytes", with_commas(call.input), with_commas(call.output));
  }
  if (call.kind != CommKind::barrier && says_type(call)) {
    text += fmt::format(" ({})", name_of(call.dtype));
  }
  if (call.group > 0) {
    text += fmt::format(" on {} ranks", with_commas(call.group));
  }
  return call.root < 0 ? text : text + fmt::format(", root {}", call.root);
}

/// Where one sequence is found in another one.
struct FoundPart {
  std::size_t first = 0;    // of the best place
  std::size_t alike = 0;    // calls that are the same from there on
  std::size_t places = 0;   // where all of them are
  bool is_complete = true;  // every place was tried
  void add(std::size_t place, std::size_t calls, std::size_t all) {
    if (calls > alike) {
      first = place;
      alike = calls;
    }
    places += calls == all ? 1 : 0;
  }
};

/// Knuth, Morris, Pratt (1977): in time that grows with the sum of the lengths. For calls that say all: two
/// that are the same as a third are then the same.
FoundPart found_in(const SharedCalls& whole, const SharedCalls& part) {
  std::vector<std::size_t> borders(part.size() + 1, 0);
  for (std::size_t at = 1, border = 0; at < part.size(); ++at) {
    while (border > 0 && !same(part[at], part[border])) {
      border = borders[border];
    }
    border += same(part[at], part[border]) ? 1 : 0;
    borders[at + 1] = border;
  }
  FoundPart best;
  for (std::size_t at = 0, alike = 0; at < whole.size(); ++at) {
    while (alike > 0 && (alike == part.size() || !same(whole[at], part[alike]))) {
      alike = borders[alike];
    }
    alike += same(whole[at], part[alike]) ? 1 : 0;
    best.add(at + 1 - alike, alike, part.size());
  }
  return best;
}

/// For calls that do not say all: tries place after place.
FoundPart tried_in(const SharedCalls& whole, const SharedCalls& part) {
  FoundPart best;
  std::int64_t left = k_most_compared;
  for (std::size_t first = 0; first < whole.size() && best.is_complete; ++first) {
    const std::size_t most = std::min(part.size(), whole.size() - first);
    std::size_t alike = 0;
    while (alike < most && same(whole[first + alike], part[alike])) {
      ++alike;
    }
    best.add(first, alike, part.size());
    left -= static_cast<std::int64_t>(alike) + 1;
    best.is_complete = left > 0 || first + 1 == whole.size();
  }
  return best;
}

/// "1-3, 5".
std::string ranks_list(const std::vector<Rank>& ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1].value == ranks[last].value + 1) {
      ++last;
    }
    text += text.empty() ? "" : ", ";
    text += first == last ? fmt::format("{}", ranks[first].value)
                          : fmt::format("{}-{}", ranks[first].value, ranks[last].value);
    first = last + 1;
  }
  return text;
}

/// The traces in the order profile, logs.
class ProfileJoin {
 public:
  ProfileJoin(std::vector<Trace> traces, const JoinRequest& request)
      : traces_(std::move(traces)), names_(request.names), assume_world_(request.assume_world) {}

  Result<Trace> joined();

 private:
  struct LoggedRank {
    std::size_t trace = 0;
    std::size_t stream = 0;
    Rank rank;
  };

  Result<void> order();
  void name_ranks();
  Result<void> check_same_sequences() const;
  Result<std::size_t> part_of_log(const LoggedRank& rank);
  void share_iterations(const LoggedRank& reference);
  Result<void> cut_logs();
  void time_logged(const LoggedRank& own);
  Result<void> add_assumed();
  RankStream& profiled() { return traces_.front().streams.front(); }
  SharedCalls calls_of(const LoggedRank& rank) const {
    return shared_calls(traces_[rank.trace], traces_[rank.trace].streams[rank.stream]);
  }
  std::int64_t job_ranks() const;

  std::vector<Trace> traces_;
  std::vector<std::string> names_;
  bool assume_world_;
  std::vector<LoggedRank> logged_;  // ranks of the logs, ascending
  LoggedRank source_;               // what has the calls of the profiled rank
};

Result<void> ProfileJoin::order() {
  const auto profile = std::find_if(traces_.begin(), traces_.end(), has_times);
  if (profile == traces_.end() || profile->provenance.averaged_times) {
    return failure("--assume-world takes the profile of one rank, with times, and none of the files is one");
  }
  for (std::size_t at = 0; at < traces_.size(); ++at) {
    if (&traces_[at] != &*profile && has_times(traces_[at])) {
      return failure(fmt::format(
          "{} and {} both have times; --assume-world takes the profile of one rank, and logs without times",
          names_[static_cast<std::size_t>(profile - traces_.begin())], names_[at]));
    }
  }
  const auto place = static_cast<std::size_t>(profile - traces_.begin());
  if (profile->streams.size() != 1 || profile->streams.front().ranks.count() != 1) {
    return failure(fmt::format("{} has {} ranks; --assume-world takes the profile of one", names_[place],
                               profile->streams.size()));
  }
  std::swap(traces_.front(), traces_[place]);
  std::swap(names_.front(), names_[place]);
  return {};
}

/// A side that does not say whose calls it has takes the rank of the other one, where there are two and each
/// has one rank.
void ProfileJoin::name_ranks() {
  Trace& profile = traces_.front();
  if (traces_.size() == 2 && traces_[1].streams.size() == 1) {
    Trace& log = traces_[1];
    if (says_rank(profile) && !says_rank(log)) {
      log.streams.front().ranks = profiled().ranks;
      log.provenance.assumed.erase(k_rank_unsaid);
    } else if (!says_rank(profile) && says_rank(log)) {
      profiled().ranks = log.streams.front().ranks;
      profile.provenance.assumed.erase(k_rank_unsaid);
    }
  }
  for (std::size_t at = 1; at < traces_.size(); ++at) {
    for (std::size_t stream = 0; stream < traces_[at].streams.size(); ++stream) {
      logged_.push_back({at, stream, traces_[at].streams[stream].ranks.first});
    }
  }
  std::sort(logged_.begin(), logged_.end(),
            [](const LoggedRank& a, const LoggedRank& b) { return a.rank < b.rank; });
}

Result<void> ProfileJoin::check_same_sequences() const {
  if (logged_.empty()) {
    return {};
  }
  const LoggedRank& first = logged_.front();
  const SharedCalls calls = calls_of(first);
  for (const LoggedRank& other : std::span(logged_).subspan(1)) {
    const SharedCalls others = calls_of(other);
    const auto [mine, theirs] =
        std::mismatch(calls.begin(), calls.end(), others.begin(), others.end(), same_but_root);
    if (mine != calls.end() || theirs != others.end()) {
      const auto at = static_cast<std::size_t>(mine - calls.begin());
      return failure(fmt::format(
          "the ranks of the log do not show the same calls: call {} of rank {} is {}, of rank {} {} "
          "({}); import the files of all ranks instead",
          at + 1, first.rank.value, call_text(calls, at), other.rank.value, call_text(others, at),
          names_[other.trace]));
    }
  }
  return {};
}

/// The first call of the rank's log that the profile covers. What that rests on is counted as assumed.
Result<std::size_t> ProfileJoin::part_of_log(const LoggedRank& rank) {
  const SharedCalls whole = calls_of(rank);
  const SharedCalls part = shared_calls(traces_.front(), profiled());
  const bool say_all =
      std::all_of(whole.begin(), whole.end(), says_all) && std::all_of(part.begin(), part.end(), says_all);
  const FoundPart found = say_all ? found_in(whole, part) : tried_in(whole, part);
  if (found.places == 0) {
    return failure(fmt::format(
        "the calls of {} are not in {}{}: at best call {} of rank {} is {} in the log and {} in the profile "
        "(its call {})",
        names_.front(), found.is_complete ? "" : "the part that was searched of ", names_[rank.trace],
        found.first + found.alike + 1, rank.rank.value, call_text(whole, found.first + found.alike),
        call_text(part, found.alike), found.alike + 1));
  }
  Provenance& provenance = traces_.front().provenance;
  for (std::size_t at = 0; at < part.size(); ++at) {
    const SharedCall& logged = whole[found.first + at];
    if (!says_size(part[at]) || !says_size(logged)) {
      provenance.assume("call found in the log by all but size");
    }
    if (part[at].group == 0 || logged.group == 0) {
      provenance.assume("call found in the log by all but size of group");
    }
  }
  if (found.places > 1 || !found.is_complete) {
    provenance.assume(fmt::format("place of the profile in the log, the first of {}{}",
                                  found.is_complete ? "" : "at least ",
                                  with_commas(static_cast<std::int64_t>(found.places))));
  }
  return found.first;
}

/// Ranks that do what the profiled one does have its iterations.
void ProfileJoin::share_iterations(const LoggedRank& reference) {
  const std::vector<CommEvent>& events = profiled().events;
  const SharedCalls calls = calls_of(reference);
  std::int64_t without = 0;
  for (const LoggedRank& rank : logged_) {
    RankStream& stream = traces_[rank.trace].streams[rank.stream];
    const SharedCalls others = calls_of(rank);
    if (!std::equal(calls.begin(), calls.end(), others.begin(), others.end(), same_but_root)) {
      without += std::ssize(others);
      continue;
    }
    for (std::size_t at = 0; at < events.size(); ++at) {
      stream.events[at].iteration = events[at].iteration;
      stream.events[at].micro_batch = events[at].micro_batch;
    }
  }
  if (without > 0 && !traces_.front().iterations().empty()) {
    traces_.front().provenance.skip(
        "call of a rank that does not do what the profiled one does, kept without its iteration", without);
  }
}

/// Leaves of the logs what the profile covers, without the profiled rank.
Result<void> ProfileJoin::cut_logs() {
  if (logged_.empty()) {
    return {};
  }
  const Rank self = profiled().ranks.first;
  const auto own =
      std::find_if(logged_.begin(), logged_.end(), [&](const LoggedRank& rank) { return rank.rank == self; });
  if (own == logged_.end() && !assume_world_) {
    return failure(
        fmt::format("{} has no calls of rank {}, which {} is of; --assume-world takes ranks that show the "
                    "same calls for each other",
                    names_[logged_.front().trace], self.value, names_.front()));
  }
  const LoggedRank& reference = own == logged_.end() ? logged_.front() : *own;
  const Result<std::size_t> first = part_of_log(reference);
  if (!first) {
    return tl::unexpected(first.error());
  }
  const std::size_t calls = profiled().events.size();
  const bool is_whole = calls == traces_[reference.trace].streams[reference.stream].events.size();
  if (!is_whole) {
    if (const Result<void> same = check_same_sequences(); !same) {
      return failure(
          fmt::format("{} covers {} calls of the log, and which these are on other ranks is not known: {}",
                      names_.front(), with_commas(static_cast<std::int64_t>(calls)), same.error().message));
    }
  }
  std::int64_t outside = 0;
  for (const LoggedRank& rank : logged_) {
    RankStream& stream = traces_[rank.trace].streams[rank.stream];
    if (!is_whole) {
      outside += static_cast<std::int64_t>(stream.events.size() - calls);
      const auto begin = stream.events.begin() + static_cast<std::ptrdiff_t>(*first);
      stream.events = std::vector<CommEvent>(begin, begin + static_cast<std::ptrdiff_t>(calls));
    }
  }
  share_iterations(reference);
  if (outside > 0) {
    traces_.front().provenance.skip("logged call that the profile does not cover", outside);
  }
  if (own != logged_.end()) {
    time_logged(*own);
  }
  return {};
}

/// The log's calls of the profiled rank get the profile's times; they have the groups that the other ranks'
/// have.
void ProfileJoin::time_logged(const LoggedRank& own) {
  Provenance& from = traces_.front().provenance;
  Trace& log = traces_[own.trace];
  log.streams[own.stream].times = std::move(profiled().times);
  log.streams[own.stream].compute = std::move(profiled().compute);
  log.provenance.producer = fmt::format("{} and {}", from.producer, log.provenance.producer);
  log.provenance.description = fmt::format("{} and {}", from.description, log.provenance.description);
  log.provenance.job_ranks = std::max(from.job_ranks, log.provenance.job_ranks);
  for (const auto& [reason, count] : from.skipped) {
    log.provenance.skip(reason, count);
  }
  for (const auto& [reason, count] : from.assumed) {
    log.provenance.assume(reason, count);
  }
  traces_.erase(traces_.begin());
  names_.erase(names_.begin());
  source_ = {own.trace - 1, own.stream, own.rank};
}

std::int64_t ProfileJoin::job_ranks() const {
  std::int64_t ranks = 0;
  for (const Trace& trace : traces_) {
    ranks = std::max(ranks, trace.provenance.job_ranks);
  }
  if (ranks > 0) {
    return ranks;
  }
  for (const Trace& trace : traces_) {
    ranks = std::max(ranks, trace.ranks());
    for (const CommOp& op : trace.ops()) {
      ranks = std::max(ranks, trace.groups.size(op.group));
    }
  }
  return ranks;
}

/// Gives the ranks that no file has the calls of the profiled one.
Result<void> ProfileJoin::add_assumed() {
  Trace& profile = traces_[source_.trace];
  const std::int64_t ranks = job_ranks();
  std::set<Rank> present = {source_.rank};
  for (const LoggedRank& rank : logged_) {
    present.insert(rank.rank);
  }
  std::vector<Rank> missing;
  for (Rank rank{0}; rank.value < ranks; ++rank.value) {
    if (!present.contains(rank)) {
      missing.push_back(rank);
    }
  }
  const std::vector<CommEvent> events = profile.streams[source_.stream].events;
  for (std::size_t at = 0; at < events.size() && !missing.empty(); ++at) {
    const CommOp& op = profile.op(events[at].op);
    if (profile.groups.size(op.group) != ranks) {
      return failure(
          fmt::format("--assume-world: call {} of rank {} is {} on {} of {} ranks, and no file tells which "
                      "group rank {} is in; add the log of that rank",
                      at + 1, source_.rank.value, name_of(op.kind),
                      with_commas(profile.groups.size(op.group)), with_commas(ranks), missing.front().value));
    }
  }
  if (static_cast<std::int64_t>(events.size()) > k_most_assumed / std::max<std::int64_t>(ranks, 1)) {
    return failure(fmt::format(
        "--assume-world: {} calls on each of {} ranks are too many to write; give the profile alone",
        with_commas(static_cast<std::int64_t>(events.size())), with_commas(ranks)));
  }
  for (const Rank rank : missing) {
    profile.streams.push_back({.ranks = {rank, rank}, .events = events, .times = {}, .compute = {}});
  }
  if (!missing.empty()) {
    profile.provenance.assume(
        fmt::format("rank ({}) taken to make the calls of rank {}", ranks_list(missing), source_.rank.value),
        static_cast<std::int64_t>(missing.size()));
  }
  profile.provenance.job_ranks = ranks;
  return {};
}

Result<Trace> ProfileJoin::joined() {
  if (const Result<void> ordered = order(); !ordered) {
    return tl::unexpected(ordered.error());
  }
  name_ranks();
  source_.rank = profiled().ranks.first;
  if (assume_world_) {
    if (const Result<void> same = check_same_sequences(); !same) {
      return failure("--assume-world: " + same.error().message);
    }
  }
  if (const Result<void> cut = cut_logs(); !cut) {
    return tl::unexpected(cut.error());
  }
  if (assume_world_) {
    if (const Result<void> added = add_assumed(); !added) {
      return tl::unexpected(added.error());
    }
  }
  return merged(std::move(traces_), names_);
}

}  // namespace

bool is_profile_and_log(const std::vector<Trace>& traces) {
  const auto profile = std::find_if(traces.begin(), traces.end(), has_times);
  const bool is_one_rank = profile != traces.end() && !profile->provenance.averaged_times &&
                           profile->streams.size() == 1 && profile->streams.front().ranks.count() == 1;
  if (!is_one_rank || std::count_if(traces.begin(), traces.end(), has_times) != 1) {
    return false;
  }
  const Rank self = profile->streams.front().ranks.first;
  return std::any_of(traces.begin(), traces.end(), [&](const Trace& trace) {
    const bool is_unnamed =
        traces.size() == 2 && trace.streams.size() == 1 && says_rank(trace) != says_rank(*profile);
    return &trace != &*profile && (is_unnamed || trace.stream_of(self) != nullptr);
  });
}

Result<Trace> join_profile(std::vector<Trace> traces, const JoinRequest& request) {
  return ProfileJoin(std::move(traces), request).joined();
}

}  // namespace commlens::formats
