#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "commlens/app/hang.hpp"
#include "commlens/app/json_result.hpp"
#include "commlens/comm/volume.hpp"
#include "commlens/report/table_json.hpp"
#include "commlens/report/vocabulary.hpp"

namespace commlens {
namespace {

using nlohmann::ordered_json;

/// Ranks in words: "0-3 7", shortened after a few pieces.
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

/// Which of several communicators of the same ranks a call is made in: " in MPI_COMM_WORLD"; empty where
/// there is one.
std::string communicator_in_words(const HangResult& result, const SeenCall& call) {
  const CallChannel& own = result.job.channels[call.channel];
  const auto is_alike = [&](const CallChannel& other) {
    return !other.is_pair && other.members == own.members && other.communicator != own.communicator;
  };
  if (std::none_of(result.job.channels.begin(), result.job.channels.end(), is_alike)) {
    return "";
  }
  return own.communicator == world_communicator() ? " in MPI_COMM_WORLD"
                                                  : " in communicator " + text_of(own.communicator);
}

/// "all_reduce #301 on 0-3", "recv #7 from 1", "recv from any rank".
std::string call_in_words(const HangResult& result, const SeenCall& call) {
  switch (call.part) {
    case CallPart::collective:
      return fmt::format("{} #{} on {}{}", op_of(call), call.number,
                         ranks_in_words(numbers_of(members_of(result, call))),
                         communicator_in_words(result, call));
    case CallPart::send:
      return fmt::format("send #{} to {}", call.number, members_of(result, call).back().value);
    case CallPart::receive:
      return fmt::format("recv #{} from {}", call.number, members_of(result, call).front().value);
    case CallPart::receive_any:
      return "recv from any rank";
    case CallPart::other:
      break;
  }
  return call.name.empty() ? op_of(call) : call.name;
}

/// "MPI_Allreduce, fp64, 8.00 KiB, iteration 300, heat.c:42".
std::string details_of(const SeenCall& call) {
  std::vector<std::string> parts;
  if (!call.name.empty()) {
    parts.push_back(call.name);
  }
  if (const Bytes bytes = message_bytes(call.op); bytes.value > 0) {
    parts.push_back(fmt::format("{}, {}", name_of(call.op.dtype), to_text(bytes)));
  }
  if (call.root >= 0) {
    parts.push_back(fmt::format("root {}", call.root));
  }
  if (!call.tag.empty()) {
    parts.push_back(call.tag);
  }
  if (call.iteration != k_unknown_iteration && call.iteration >= 0) {
    parts.push_back(fmt::format("iteration {}", call.iteration));
  }
  if (!call.site.empty()) {
    parts.push_back(call.site);
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string signature_in_words(const CallSignature& signature) {
  std::string text = signature.name.empty() ? std::string(name_of(signature.kind)) : signature.name;
  if (signature.elements >= 0 && signature.dtype) {
    text += fmt::format(", {} elements of {}", signature.elements, name_of(*signature.dtype));
  }
  return signature.root < 0 ? text : fmt::format("{}, root {}", text, signature.root);
}

/// What a rank is doing.
std::string doing_of(const HangResult& result, std::size_t row) {
  const RankProgress& rank = result.job.ranks[row];
  if (!rank.state.is_recorded) {
    return "not recorded";
  }
  if (rank.state.has_ended) {
    return "has ended";
  }
  if (!rank.open.empty()) {
    const auto blocking = std::find_if(rank.open.begin(), rank.open.end(),
                                       [](const SeenCall& call) { return call.is_blocking(); });
    return blocking != rank.open.end()
               ? "in a call"
               : fmt::format("{} request{} under way", rank.open.size(), rank.open.size() == 1 ? "" : "s");
  }
  return rank.state.has_begun_to_end ? "in MPI_Finalize" : "in no call";
}

/// The call that a rank is in; null when it is in none.
const SeenCall* call_of(const HangResult& result, std::size_t row, std::optional<std::size_t> waits_in = {}) {
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

/// "1 rank waits", "3 ranks wait".
std::string ranks_wait(std::int64_t count) {
  return count == 1 ? "1 rank waits" : fmt::format("{} ranks wait", count);
}

/// Whether a name can stand in a command: the recording may have any.
bool is_host_name(std::string_view name) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  return !name.empty() && name.front() != '-' && name.find_first_not_of(allowed) == std::string_view::npos;
}

/// What to run to see where a culprit is, on which machine.
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

std::string headline(const HangResult& result) {
  const std::string culprits = [&] {
    std::vector<std::size_t> rows;
    for (const HangCulprit& culprit : result.finding.culprits) {
      rows.push_back(culprit.rank);
    }
    return ranks_in_words(numbers_of(result, rows));
  }();
  const char* const ranks = result.finding.culprits.size() == 1 ? "rank" : "ranks";
  switch (result.finding.verdict) {
    case HangVerdict::none:
      return result.has_moved ? "nothing is stuck: the ranks that waited have moved on\n"
                              : "nothing is stuck: no rank waits for another\n";
    case HangVerdict::mismatch:
      return fmt::format(
          "mismatch: {} {} {}\n", ranks, culprits,
          result.finding.is_even ? "did not make the same call" : "made another call than the others");
    case HangVerdict::deadlock:
      return fmt::format("deadlock: {} {} wait for each other\n", ranks, culprits);
    case HangVerdict::missing:
      return fmt::format("missing: {} for {}{} {}\n", ranks_wait(result.finding.waiting),
                         result.finding.is_any_of ? "any of " : "", ranks, culprits);
    case HangVerdict::all_inside:
      return "all inside: every rank that takes part has entered the call, and it does not end\n";
    case HangVerdict::unmatched:
      return fmt::format(
          "unmatched: {} inside of calls whose other ends are not known\n",
          result.finding.waiting == 1 ? "1 rank is" : fmt::format("{} ranks are", result.finding.waiting));
  }
  return "";
}

std::string run_in_words(const HangResult& result) {
  switch (result.run) {
    case JobRun::running:
      return result.unchanged_for.count() > 0 && !result.has_moved
                 ? fmt::format("a snapshot of a job that runs; nothing of this moved for {}\n",
                               to_text(std::chrono::nanoseconds(result.unchanged_for)))
                 : "a snapshot of a job that runs\n";
    case JobRun::ended:
      return "all ranks have ended\n";
    case JobRun::stopped:
      return "the job was stopped before all ranks ended\n";
    case JobRun::unknown:
      return "a snapshot: whether the job still runs cannot be known here\n";
  }
  return "";
}

std::string culprits_text(const HangResult& result) {
  constexpr std::size_t most = 16;
  std::string text;
  for (std::size_t at = 0; at < std::min(result.finding.culprits.size(), most); ++at) {
    const HangCulprit& culprit = result.finding.culprits[at];
    const RankProgress& rank = result.job.ranks[culprit.rank];
    text += fmt::format("rank {}: ", rank.state.rank.value);
    if (culprit.waits_in) {
      const WaitPoint& point = result.graph.points[*culprit.waits_in];
      const SeenCall* const own = call_of(result, culprit.rank, culprit.waits_in);
      text += fmt::format("in {}, waits for {}", call_in_words(result, own == nullptr ? point.call : *own),
                          ranks_in_words(numbers_of(result, result.graph.missing_of(point))));
    } else {
      const SeenCall* const own = call_of(result, culprit.rank);
      text += own == nullptr ? doing_of(result, culprit.rank) : "in " + call_in_words(result, *own);
    }
    if (rank.state.process) {
      text += fmt::format("; host {}, pid {}", rank.state.process->host, rank.state.process->pid);
      if (result.processes[culprit.rank] != ProcessState::unknown) {
        text += fmt::format(" ({})", name_of(result.processes[culprit.rank]));
      }
    }
    if (culprit.waiters && culprit.waiters->in_all > 0) {
      text += fmt::format("; {} for it directly, {} in all", ranks_wait(culprit.waiters->directly),
                          culprit.waiters->in_all);
    }
    if (rank.last) {
      text += fmt::format("\n  last {}: {} ({})", rank.has_last_failed ? "call, which failed" : "completed",
                          call_in_words(result, *rank.last), details_of(*rank.last));
    }
    text += '\n';
  }
  return result.finding.culprits.size() > most
             ? text + fmt::format("… and {} more\n", result.finding.culprits.size() - most)
             : text;
}

std::string point_text(const HangResult& result) {
  if (!result.finding.point) {
    return "";
  }
  const WaitPoint& point = result.graph.points[*result.finding.point];
  std::string text = fmt::format("stuck at {} ({})\n  inside: {}", call_in_words(result, point.call),
                                 details_of(point.call), ranks_in_words(numbers_of(result, point.waiting)));
  if (const auto missing = result.graph.missing_of(point); !missing.empty()) {
    text += fmt::format("; not there: {}", ranks_in_words(numbers_of(result, missing)));
  }
  if (!point.unknown.empty()) {
    text += fmt::format("; not known: {}", ranks_in_words(numbers_of(result, point.unknown)));
  }
  return text + "\n";
}

std::string difference_text(const HangResult& result) {
  if (!result.finding.difference) {
    return "";
  }
  const CallDifference& difference = *result.finding.difference;
  const CallChannel& channel = result.job.channels[difference.channel];
  std::string text = fmt::format("collective #{} of {} is not one call:\n", difference.number,
                                 ranks_in_words(numbers_of(channel.members)));
  for (const auto& [signature, ranks] : difference.sides) {
    text += fmt::format("  {}: {}\n", signature_in_words(signature), ranks_in_words(numbers_of(ranks)));
  }
  return text;
}

std::string hang_text(const HangResult& result, const TextStyle& style) {
  std::string text = headline(result) + run_in_words(result);
  if (result.is_stuck()) {
    text += "\n" + difference_text(result) + culprits_text(result) + point_text(result);
    constexpr std::size_t most_rows = 64;
    if (result.job.ranks.size() <= most_rows) {
      text += "\n" + ranks_table(result).text_with_hidden(style);
    } else {
      text += fmt::format("\n{} ranks: --format csv lists them\n", result.job.ranks.size());
    }
  }
  for (const std::string& note : result.notes) {
    text += "note: " + note + "\n";
  }
  if (const std::vector<std::string> commands = commands_for(result); !commands.empty()) {
    text += fmt::format("\nto see where they are:\n  {}\n", fmt::join(commands, "\n  "));
  }
  return text;
}

std::string communicator_text(const HangResult& result, std::size_t channel) {
  const CommunicatorId id =
      channel == k_no_channel ? k_no_communicator : result.job.channels[channel].communicator;
  return id == k_no_communicator ? "" : text_of(id);
}

ordered_json call_json(const HangResult& result, const SeenCall& call) {
  ordered_json json = {{"op", name_of(call.op.kind)},
                       {"name", call.name},
                       {"number", nullptr},
                       {"group", numbers_of(members_of(result, call))},
                       {"communicator", communicator_text(result, call.channel)},
                       {"dtype", name_of(call.op.dtype)},
                       {"message_bytes", message_bytes(call.op).value},
                       {"root", nullptr},
                       {"tag", call.tag},
                       {"site", call.site},
                       {"iteration", nullptr}};
  if (call.number > 0) {
    json["number"] = call.number;
  }
  if (call.root >= 0) {
    json["root"] = call.root;
  }
  if (call.iteration != k_unknown_iteration) {
    json["iteration"] = call.iteration;
  }
  return json;
}

ordered_json point_json(const HangResult& result, std::size_t which) {
  const WaitPoint& point = result.graph.points[which];
  ordered_json json = call_json(result, point.call);
  json["inside"] = numbers_of(result, point.waiting);
  json["missing"] = numbers_of(result, result.graph.missing_of(point));
  return json;
}

ordered_json culprit_json(const HangResult& result, const HangCulprit& culprit) {
  const RankProgress& rank = result.job.ranks[culprit.rank];
  ordered_json json = {{"rank", rank.state.rank.value},
                       {"doing", doing_of(result, culprit.rank)},
                       {"host", nullptr},
                       {"pid", nullptr},
                       {"process", name_of(result.processes[culprit.rank])},
                       {"waiting_directly", nullptr},
                       {"waiting_in_all", nullptr},
                       {"last_call", nullptr},
                       {"waits_in", nullptr}};
  if (culprit.waiters) {
    json["waiting_directly"] = culprit.waiters->directly;
    json["waiting_in_all"] = culprit.waiters->in_all;
  }
  if (rank.state.process) {
    json["host"] = rank.state.process->host;
    json["pid"] = rank.state.process->pid;
  }
  if (rank.last) {
    json["last_call"] = call_json(result, *rank.last);
  }
  if (culprit.waits_in) {
    json["waits_in"] = point_json(result, *culprit.waits_in);
  }
  return json;
}

ordered_json side_json(const CallSignature& signature, const std::vector<Rank>& ranks) {
  ordered_json json = {
      {"op", name_of(signature.kind)}, {"name", signature.name}, {"dtype", nullptr},
      {"elements", nullptr},           {"root", nullptr},        {"group", numbers_of(ranks)}};
  if (signature.dtype && signature.elements >= 0) {
    json["dtype"] = name_of(*signature.dtype);
    json["elements"] = signature.elements;
  }
  if (signature.root >= 0) {
    json["root"] = signature.root;
  }
  return json;
}

ordered_json hang_json(const HangResult& result) {
  ordered_json json = {{"schema", "commlens.hang/1"},
                       {"trace", result.name},
                       {"verdict", name_of(result.finding.verdict)},
                       {"job", name_of(result.run)},
                       {"is_snapshot", result.run == JobRun::running || result.run == JobRun::unknown},
                       {"unchanged_s", static_cast<double>(result.unchanged_for.count()) / 1000.0},
                       {"waiting_ranks", result.finding.waiting},
                       {"is_any_of", result.finding.is_any_of},
                       {"may_compute", result.finding.may_compute},
                       {"culprits", ordered_json::array()},
                       {"stuck_call", nullptr},
                       {"sides", ordered_json::array()},
                       {"rows", rows_json(ranks_table(result))},
                       {"notes", result.notes},
                       {"commands", commands_for(result)}};
  for (const HangCulprit& culprit : result.finding.culprits) {
    json["culprits"].push_back(culprit_json(result, culprit));
  }
  if (result.finding.point) {
    json["stuck_call"] = point_json(result, *result.finding.point);
  }
  if (result.finding.difference) {
    for (const auto& [signature, ranks] : result.finding.difference->sides) {
      json["sides"].push_back(side_json(signature, ranks));
    }
  }
  return json;
}

}  // namespace

std::string rendered(const HangResult& result, Format format, const TextStyle& style) {
  return in_format(
      format, [&] { return hang_text(result, style); }, [&] { return hang_json(result); },
      [&] { return ranks_table(result).csv(); });
}

}  // namespace commlens
