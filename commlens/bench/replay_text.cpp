#include "commlens/bench/replay_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/transport/call_check.hpp"

namespace commlens::bench {
namespace {

std::string list_of(const std::vector<Rank>& ranks) {
  constexpr std::size_t k_most = 8;
  std::string list;
  for (std::size_t at = 0; at < std::min(ranks.size(), k_most); ++at) {
    list += fmt::format("{}{}", at == 0 ? "" : ", ", ranks[at].value);
  }
  return ranks.size() > k_most ? list + ", …" : list;
}

}  // namespace

std::string replayed_text(const CommCall& call) {
  if (call.kind == CommKind::barrier) {
    return "barrier";
  }
  const bool is_output =
      call.kind == CommKind::all_gather || call.kind == CommKind::recv || call.other == OtherCall::scatter;
  return fmt::format("{} of {} {}", call.kind == CommKind::other ? name_of(call.other) : name_of(call.kind),
                     to_text((is_output ? call.output : call.input) * call.dtype), name_of(call.dtype));
}

std::string replayed_text(const std::vector<Rank>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", list_of(ranks));
}

std::string replayed_text(const ReplayGroup& group) {
  const bool is_named = group.axis != Axis::unknown;
  return fmt::format("the {}group of {} ranks ({})", is_named ? fmt::format("{} ", group.axis.name()) : "",
                     group.members.size(), list_of(group.members));
}

}  // namespace commlens::bench
