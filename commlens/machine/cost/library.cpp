#include "commlens/machine/cost/library.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/base/text.hpp"
#include "commlens/machine/cost/nccl.hpp"
#include "commlens/machine/cost/point_to_point.hpp"
#include "commlens/machine/cost/rccl.hpp"
#include "commlens/machine/cost/rccl_tables.hpp"

namespace commlens {
namespace {

bool is_exchange(CommKind op) { return op == CommKind::all_to_all || is_point_to_point(op); }

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return result;
}

/// Whether a list as NCCL_ALGO has it ("ring,tree") admits a name.
bool admits(const std::vector<std::string>& wanted, const std::string& name) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), lower(name)) != wanted.end();
}

/// NCCL and RCCL take the channels of peers; LL ends where one channel's flags would not pay.
std::vector<Candidate> exchange_candidates(const CommGraph& graph, const TimedCall& call) {
  if (call.place.ranks == 1) {
    return {{"p2p", "Simple", 0, 0, 0}};
  }
  const PeerChannels channels = peer_channels(call);
  const double bandwidth = static_cast<double>(graph.ring.count) *
                           (call.place.nodes > 1 ? graph.ring.inter : graph.ring.intra) *
                           (channels.is_ll ? .5 : 1);
  const double share = sent_share(call.op, call.place.ranks);
  const double latency = channels.is_ll ? 6.6 + .6 * static_cast<double>(call.place.ranks - 1)
                                        : 8.4 + 3.4 * static_cast<double>(call.place.ranks - 1);
  const double algorithm_bandwidth = bandwidth / share;
  return {{"p2p", channels.is_ll ? "LL" : "Simple", latency, algorithm_bandwidth,
           latency + static_cast<double>(call.bytes.value) / (1000 * algorithm_bandwidth)}};
}

std::vector<Candidate> by_tuning(std::vector<Candidate> candidates, const TimedCall& call,
                                 const std::vector<TunedPair>& tuning) {
  for (Candidate& candidate : candidates) {
    for (const TunedPair& pair : tuning) {
      if (pair.op == call.op && pair.algorithm == candidate.algorithm &&
          pair.protocol == candidate.protocol && pair.bandwidth > 0) {
        candidate.latency_us = pair.latency_us;
        candidate.bandwidth = pair.bandwidth;
        candidate.library_us =
            pair.latency_us + static_cast<double>(call.bytes.value) / (1000 * pair.bandwidth);
      }
    }
  }
  return candidates;
}

Result<std::vector<Candidate>> table_of(const Machine& machine, const Library& library, const TimedCall& call,
                                        const CommGraph& graph) {
  if (is_exchange(call.op)) {
    return exchange_candidates(graph, call);
  }
  if (library.name == "rccl") {
    const auto model = static_cast<std::size_t>(machine.rccl_model ? machine.rccl_model->value : 0);
    return rccl_candidates(
        {std::min(model, k_rccl_models - 1), graph, machine.processor.architecture, machine.cpu}, call);
  }
  return nccl_minor(library.version).map([&](int minor) {
    return nccl_candidates({nccl_tables(minor), graph, machine.processor.architecture, machine.cpu}, call);
  });
}

/// What NCCL_ALGO and NCCL_PROTO leave; an algorithm that does not exist for such a call is no restriction.
std::vector<Candidate> admitted(const std::vector<Candidate>& candidates, const Library& library,
                                const TimedCall& call) {
  if (is_exchange(call.op)) {
    return candidates;
  }
  const bool has_any =
      std::any_of(library.algorithms.begin(), library.algorithms.end(),
                  [&](const std::string& name) { return nccl_has(name, call.op, call.place); });
  std::vector<Candidate> kept;
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(kept),
               [&](const Candidate& candidate) {
                 return (!has_any || admits(library.algorithms, candidate.algorithm)) &&
                        admits(library.protocols, candidate.protocol);
               });
  return kept.empty() ? candidates : kept;
}

}  // namespace

Result<int> nccl_minor(std::string_view version) {
  const bool is_two = version.starts_with("2.");
  const std::string_view rest = is_two ? version.substr(2) : std::string_view();
  const Result<std::int64_t> minor = parse_integer(rest.substr(0, rest.find('.')));
  if (!minor || *minor < k_oldest_nccl || *minor > k_newest_nccl) {
    return failure(fmt::format("NCCL '{}' has no table here; known are 2.{} to 2.{}", version, k_oldest_nccl,
                               k_newest_nccl));
  }
  return static_cast<int>(*minor);
}

Result<Library> library_from(std::string_view text) {
  const std::size_t colon = text.find(':');
  Library library;
  library.name = std::string(text.substr(0, colon));
  library.version = colon == std::string_view::npos ? "" : std::string(text.substr(colon + 1));
  if (library.name != "nccl" && library.name != "rccl" && library.name != "mpi") {
    return failure(fmt::format("library '{}' is not known; choose nccl, rccl or mpi", library.name));
  }
  if (library.name == "nccl" && colon != std::string_view::npos) {
    return nccl_minor(library.version).map([&](int) { return library; });
  }
  return library;
}

Result<std::vector<Candidate>> library_candidates(const Machine& machine, const Library& library,
                                                  const TimedCall& call,
                                                  const std::vector<TunedPair>& tuning) {
  if (library.name == "mpi") {
    return std::vector<Candidate>();
  }
  return comm_graph(machine, call.place)
      .and_then([&](const CommGraph& graph) { return table_of(machine, library, call, graph); })
      .map([&](const std::vector<Candidate>& candidates) {
        return by_tuning(admitted(candidates, library, call), call, tuning);
      });
}

Result<PairName> chosen_pair(const Machine& machine, const Library& library, const TimedCall& call) {
  if (library.name == "mpi") {
    return PairName{library.algorithms.empty() ? "any" : library.algorithms.front(), "any"};
  }
  return library_candidates(machine, library, call).map([&](const std::vector<Candidate>& candidates) {
    const auto best =
        std::min_element(candidates.begin(), candidates.end(),
                         [](const Candidate& a, const Candidate& b) { return a.library_us < b.library_us; });
    return PairName{best->algorithm, best->protocol};
  });
}

}  // namespace commlens
