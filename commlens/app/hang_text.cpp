#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/hang.hpp"
#include "commlens/app/hang_facts.hpp"
#include "commlens/app/hang_json.hpp"
#include "commlens/app/json_result.hpp"
#include "commlens/comm/volume.hpp"

namespace commlens {
namespace {

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
      return fmt::format("{} #{} on {}{}", shown_foreign(op_of(call)), call.number,
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
  return shown_foreign(call.name.empty() ? op_of(call) : call.name);
}

/// "MPI_Allreduce, fp64, 8.00 KiB, iteration 300, heat.c:42".
std::string details_of(const SeenCall& call) {
  std::vector<std::string> parts;
  if (!call.name.empty()) {
    parts.push_back(shown_foreign(call.name));
  }
  if (const Bytes bytes = message_bytes(call.op); bytes.value > 0) {
    parts.push_back(fmt::format("{}, {}", name_of(call.op.dtype), to_text(bytes)));
  }
  if (call.root >= 0) {
    parts.push_back(fmt::format("root {}", call.root));
  }
  if (!call.tag.empty()) {
    parts.push_back(shown_foreign(call.tag));
  }
  if (call.iteration != k_unknown_iteration && call.iteration >= 0) {
    parts.push_back(fmt::format("iteration {}", call.iteration));
  }
  if (!call.site.empty()) {
    parts.push_back(shown_foreign(call.site));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string signature_in_words(const CallSignature& signature) {
  std::string text =
      signature.name.empty() ? std::string(name_of(signature.kind)) : shown_foreign(signature.name);
  if (signature.elements >= 0 && signature.dtype) {
    text += fmt::format(", {} elements of {}", signature.elements, name_of(*signature.dtype));
  }
  return signature.root < 0 ? text : fmt::format("{}, root {}", text, signature.root);
}

/// "1 rank waits", "3 ranks wait".
std::string ranks_wait(std::int64_t count) {
  return count == 1 ? "1 rank waits" : fmt::format("{} ranks wait", count);
}

/// Where a rank is and why it does nothing: " (host n3, stopped)"; empty where its host is not known.
std::string place_in_words(const HangResult& result, std::size_t row) {
  const std::optional<RankProcess>& process = result.job.ranks[row].state.process;
  if (!process || process->host.empty()) {
    return "";
  }
  const ProcessState state = result.processes[row];
  const bool is_halted = state == ProcessState::stopped || state == ProcessState::gone;
  const std::string why = result.silent.contains(row) ? ", silent"
                          : is_halted                 ? fmt::format(", {}", name_of(state))
                                                      : "";
  return fmt::format(" (host {}{})", shown_foreign(process->host), why);
}

/// "0-1 (host n0), 9 (host n1) and 3 more".
std::string culprits_in_words(const HangResult& result, CulpritWords words) {
  constexpr std::size_t most_places = 3;
  std::vector<std::pair<std::string, std::vector<std::size_t>>> places;
  for (const HangCulprit& culprit : result.finding.culprits) {
    const std::string place = words == CulpritWords::hosts ? place_in_words(result, culprit.rank) : "";
    const auto known =
        std::find_if(places.begin(), places.end(), [&](const auto& each) { return each.first == place; });
    if (known != places.end()) {
      known->second.push_back(culprit.rank);
    } else if (places.size() < most_places) {
      places.emplace_back(place, std::vector{culprit.rank});
    }
  }
  std::vector<std::string> pieces;
  std::size_t named = 0;
  for (const auto& [place, rows] : places) {
    pieces.push_back(ranks_in_words(numbers_of(result, rows)) + place);
    named += rows.size();
  }
  const std::size_t more = result.finding.culprits.size() - named;
  return fmt::format("{}{}", fmt::join(pieces, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

std::string headline(const HangResult& result, CulpritWords words) {
  const std::string culprits = culprits_in_words(result, words);
  const char* const ranks = result.finding.culprits.size() == 1 ? "rank" : "ranks";
  switch (result.finding.verdict) {
    case HangVerdict::none:
      if (result.waits_below) {
        return fmt::format("nothing is stuck: ranks wait for others, for less than {}\n",
                           to_text(*result.waits_below));
      }
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
      return result.finding.culprits.empty()
                 ? "all inside: every rank that takes part has entered the call, and it does not end\n"
                 : fmt::format(
                       "all inside: every rank that takes part has entered the call, but it has not begun "
                       "on the device{} of {} {}\n",
                       result.finding.culprits.size() == 1 ? "" : "s", ranks, culprits);
    case HangVerdict::unmatched:
      return fmt::format(
          "unmatched: {} inside of calls whose other ends are not known\n",
          result.finding.waiting == 1 ? "1 rank is" : fmt::format("{} ranks are", result.finding.waiting));
  }
  return "";
}

namespace {

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

}  // namespace

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
      text +=
          fmt::format("; host {}, pid {}", shown_foreign(rank.state.process->host), rank.state.process->pid);
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

namespace {

std::string point_text(const HangResult& result) {
  if (!result.finding.point) {
    return "";
  }
  const WaitPoint& point = result.graph.points[*result.finding.point];
  std::string text = fmt::format("stuck at {} ({})\n  inside: {}", call_in_words(result, point.call),
                                 details_of(point.call), ranks_in_words(numbers_of(result, point.waiting)));
  if (!point.on_device.empty()) {
    text += fmt::format("; begun on the device: {}", ranks_in_words(numbers_of(result, point.on_device)));
  }
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

}  // namespace

std::string rendered(const HangResult& result, Format format, const TextStyle& style) {
  return in_format(
      format, [&] { return hang_text(result, style); }, [&] { return hang_json(result); },
      [&] { return ranks_table(result).csv(); });
}

}  // namespace commlens
