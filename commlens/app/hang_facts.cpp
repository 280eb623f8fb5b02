#include "commlens/app/hang_facts.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

/// The ranks that a rank waits for, directly.
std::vector<std::int64_t> waited_for(const HangResult& result, std::size_t row) {
  std::vector<std::int64_t> ranks;
  for (const std::size_t point : result.graph.ranks[row].points) {
    const std::vector<std::int64_t> missing =
        numbers_of(result, result.graph.missing_of(result.graph.points[point]));
    ranks.insert(ranks.end(), missing.begin(), missing.end());
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

const HangCulprit* culprit_of(const HangResult& result, std::size_t row) {
  const std::vector<HangCulprit>& culprits = result.finding.culprits;
  const auto found = std::find_if(culprits.begin(), culprits.end(),
                                  [&](const HangCulprit& culprit) { return culprit.rank == row; });
  return found == culprits.end() ? nullptr : &*found;
}

/// Whether a name can stand in a command: the recording may have any.
bool is_host_name(std::string_view name) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  return !name.empty() && name.front() != '-' && name.find_first_not_of(allowed) == std::string_view::npos;
}

}  // namespace

std::string how_many(std::int64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string ranks_in_words(std::vector<std::int64_t> ranks) {
  constexpr std::size_t most_pieces = 12;
  std::sort(ranks.begin(), ranks.end());
  std::vector<std::string> pieces;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    pieces.push_back(last > first ? fmt::format("{}-{}", ranks[first], ranks[last])
                                  : fmt::format("{}", ranks[first]));
    first = last + 1;
  }
  if (pieces.size() > most_pieces) {
    pieces.resize(most_pieces);
    pieces.push_back(fmt::format("… ({} in all)", ranks.size()));
  }
  return fmt::format("{}", fmt::join(pieces, " "));
}

std::vector<std::int64_t> numbers_of(const std::vector<Rank>& ranks) {
  std::vector<std::int64_t> numbers;
  for (const Rank rank : ranks) {
    numbers.push_back(rank.value);
  }
  return numbers;
}

std::vector<std::int64_t> numbers_of(const HangResult& result, const std::vector<std::size_t>& rows) {
  std::vector<std::int64_t> numbers;
  for (const std::size_t row : rows) {
    numbers.push_back(result.job.ranks[row].state.rank.value);
  }
  return numbers;
}

std::string op_of(const SeenCall& call) {
  return call.op.kind == CommKind::other && !call.name.empty() ? call.name
                                                               : std::string(name_of(call.op.kind));
}

const std::vector<Rank>& members_of(const HangResult& result, const SeenCall& call) {
  return call.channel == k_no_channel ? call.members : result.job.channels[call.channel].members;
}

std::string doing_of(const HangResult& result, std::size_t row) {
  const RankProgress& rank = result.job.ranks[row];
  if (!rank.state.is_recorded) {
    return result.silent.contains(row) ? "its node is silent" : "not recorded";
  }
  if (rank.state.has_ended) {
    return "has ended";
  }
  if (!rank.open.empty()) {
    const auto blocking = std::find_if(rank.open.begin(), rank.open.end(),
                                       [](const SeenCall& call) { return call.is_blocking(); });
    return blocking != rank.open.end() ? "in a call"
                                       : how_many(std::ssize(rank.open), "request") + " under way";
  }
  return rank.state.has_begun_to_end ? "in MPI_Finalize" : "in no call";
}

const SeenCall* call_of(const HangResult& result, std::size_t row, std::optional<std::size_t> waits_in) {
  const RankProgress& rank = result.job.ranks[row];
  const WaitGraph::Node& node = result.graph.ranks[row];
  if (!node.points.empty()) {
    const WaitPoint& point = result.graph.points[waits_in.value_or(node.points.front())];
    const auto found = std::find_if(rank.open.begin(), rank.open.end(), [&](const SeenCall& call) {
      return call.channel == point.call.channel && call.number == point.call.number &&
             call.part == point.call.part;
    });
    return found == rank.open.end() ? &point.call : &*found;
  }
  return rank.open.empty() || rank.state.has_ended ? nullptr : &rank.open.front();
}

Table ranks_table(const HangResult& result) {
  Table table(
      columns({"rank", "is_culprit", "doing", "op", "number", "waits_for",
               Column{.key = "waiting_directly", .drop_first = 3},
               Column{.key = "waiting_in_all", .drop_first = 4}, Column{.key = "host", .drop_first = 1},
               Column{.key = "pid", .drop_first = 2}, Column{.key = "process", .drop_first = 2}}));
  for (std::size_t row = 0; row < result.job.ranks.size(); ++row) {
    const RankProgress& rank = result.job.ranks[row];
    const std::vector<std::int64_t> others = waited_for(result, row);
    std::optional<std::string> op;
    std::optional<std::int64_t> number;
    if (const SeenCall* const call = call_of(result, row)) {
      op = op_of(*call);
      number = call->number > 0 ? std::optional(call->number) : std::nullopt;
    }
    const HangCulprit* const culprit = culprit_of(result, row);
    const std::optional<Waiters> waiters = culprit == nullptr ? std::nullopt : culprit->waiters;
    const auto of = [](const auto& whole, auto member) {
      return whole ? std::optional((*whole).*member) : std::nullopt;
    };
    table.add({rank.state.rank, Cell(culprit != nullptr).shown(culprit != nullptr ? "yes" : ""),
               doing_of(result, row), op, number, Cell(others).shown(ranks_in_words(others)),
               of(waiters, &Waiters::directly), of(waiters, &Waiters::in_all),
               of(rank.state.process, &RankProcess::host), of(rank.state.process, &RankProcess::pid),
               name_of(result.processes[row])});
  }
  return table;
}

std::vector<std::string> commands_for(const HangResult& result) {
  constexpr std::size_t most = 8;
  std::vector<std::size_t> rows;
  for (const HangCulprit& culprit : result.finding.culprits) {
    rows.push_back(culprit.rank);
  }
  if (rows.empty() && result.finding.point) {  // nobody is to blame: where the call is
    rows = result.graph.points[*result.finding.point].waiting;
  }
  std::vector<std::string> commands;
  for (const std::size_t row : rows) {
    const std::optional<RankProcess>& process = result.job.ranks[row].state.process;
    const bool is_there = process && process->pid > 0 && result.processes[row] != ProcessState::gone &&
                          !result.job.ranks[row].state.has_ended && is_host_name(process->host);
    if (is_there && commands.size() < 2 * most && result.run != JobRun::stopped) {
      const bool is_here = result.processes[row] != ProcessState::unknown;
      const std::string before = is_here ? "" : fmt::format("ssh {} ", process->host);
      commands.push_back(fmt::format("{}py-spy dump --pid {}", before, process->pid));
      commands.push_back(fmt::format("{}gdb -p {} -batch -ex {}", before, process->pid,
                                     is_here ? "'thread apply all bt'" : "\"'thread apply all bt'\""));
    }
  }
  return commands;
}

}  // namespace commlens
