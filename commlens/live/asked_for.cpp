#include "commlens/live/asked_for.hpp"

#include "commlens/live/call_signature.hpp"

namespace commlens {

bool AskedFor::add(Rank rank, const SeenCall& call) {
  const bool is_numbered =
      call.part == CallPart::collective && call.channel != k_no_channel && call.number > 0;
  if (is_numbered) {
    asked_[{call.channel, call.number}].try_emplace(rank, signature_of(call.op, call.name, call.root));
  }
  return is_numbered;
}

void AskedFor::add(const RankProgress& rank) {
  for (const SeenCall& call : rank.open) {
    if (add(rank.state.rank, call)) {
      inside_.insert({call.channel, call.number});
    }
  }
  if (rank.last) {
    static_cast<void>(add(rank.state.rank, *rank.last));
  }
}

void AskedFor::add(const CallDifference& difference) {
  for (const auto& [signature, ranks] : difference.sides) {
    for (const Rank rank : ranks) {
      asked_[{difference.channel, difference.number}].try_emplace(rank, signature);
    }
  }
}

std::vector<CallDifference> AskedFor::differences() const {
  std::vector<CallDifference> differences;
  for (const Place& place : inside_) {
    if (!differences.empty() && differences.back().channel == place.first) {
      continue;
    }
    std::vector<std::pair<Rank, const CallSignature*>> calls;
    std::map<CallSignature, const CallSignature*> known;
    for (const auto& [rank, signature] : asked_.at(place)) {
      calls.emplace_back(rank, known.try_emplace(signature, &signature).first->second);
    }
    CallDifference difference{.channel = place.first, .number = place.second, .sides = sides_of(calls)};
    if (difference.sides.size() > 1) {
      differences.push_back(std::move(difference));
    }
  }
  return differences;
}

}  // namespace commlens
