#include "commlens/comm/event.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace commlens {
namespace {

constexpr std::array<std::string_view, 10> k_kind_names = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast",
    "reduce",     "send",       "recv",           "barrier",    "other"};
constexpr std::array<std::string_view, 6> k_phase_names = {"init",     "forward",   "recompute",
                                                           "backward", "optimizer", "other"};

constexpr std::array<std::string_view, 16> k_reduction_names = {
    "unknown", "sum",  "avg",  "premul_sum", "max",  "min",    "product", "band",
    "bor",     "bxor", "land", "lor",        "lxor", "maxloc", "minloc",  "other"};
constexpr std::array<std::string_view, 8> k_algorithm_names = {
    "unknown", "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
constexpr std::array<std::string_view, 4> k_protocol_names = {"unknown", "ll", "ll128", "simple"};
constexpr std::array<std::string_view, 3> k_match_names = {"exact", "count", "random"};

/// The enumerator of a name; std::nullopt if there is none.
template <typename Enum, std::size_t Count>
std::optional<Enum> enumerator(const std::array<std::string_view, Count>& names, std::string_view name) {
  const auto* const found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt : std::optional(static_cast<Enum>(found - names.begin()));
}

std::string lowercase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

std::string_view name_of(CommKind kind) { return k_kind_names.at(static_cast<std::size_t>(kind)); }

std::optional<CommKind> comm_kind_from(std::string_view name) {
  return enumerator<CommKind>(k_kind_names, name);
}

std::string_view name_of(Reduction reduction) {
  return k_reduction_names.at(static_cast<std::size_t>(reduction));
}
std::optional<Reduction> reduction_from(std::string_view name) {
  return enumerator<Reduction>(k_reduction_names, name);
}

Reduction nccl_reduction(std::int64_t number) {
  constexpr std::array<Reduction, 5> builtin = {Reduction::sum, Reduction::product, Reduction::max,
                                                Reduction::min, Reduction::avg};
  if (number < 0) {
    return Reduction::unknown;
  }
  return number < static_cast<std::int64_t>(builtin.size()) ? builtin.at(static_cast<std::size_t>(number))
                                                            : Reduction::premul_sum;
}

std::string_view name_of(Algorithm algorithm) {
  return k_algorithm_names.at(static_cast<std::size_t>(algorithm));
}
std::string_view name_of(Protocol protocol) {
  return k_protocol_names.at(static_cast<std::size_t>(protocol));
}
std::optional<Algorithm> algorithm_from(std::string_view name) {
  return enumerator<Algorithm>(k_algorithm_names, lowercase(name));
}
std::optional<Protocol> protocol_from(std::string_view name) {
  return enumerator<Protocol>(k_protocol_names, lowercase(name));
}

std::string_view name_of(Match match) { return k_match_names.at(static_cast<std::size_t>(match)); }
std::optional<Match> match_from(std::string_view name) { return enumerator<Match>(k_match_names, name); }

std::string_view name_of(Phase phase) { return k_phase_names.at(static_cast<std::size_t>(phase)); }

Phase phase_from(std::string_view text) {
  const std::string lower = lowercase(text);
  constexpr std::array<std::pair<std::string_view, Phase>, 12> parts = {{{"init", Phase::init},
                                                                         {"recompute", Phase::recompute},
                                                                         {"ckpt", Phase::recompute},
                                                                         {"opt", Phase::optimizer},
                                                                         {"step", Phase::optimizer},
                                                                         {"finalize", Phase::optimizer},
                                                                         {"backward", Phase::backward},
                                                                         {"grad", Phase::backward},
                                                                         {"forward", Phase::forward},
                                                                         {"activation", Phase::forward},
                                                                         {"microbatch", Phase::forward},
                                                                         {"loss", Phase::forward}}};
  if (lower == "fwd_bwd") {
    return Phase::other;
  }
  for (const auto& [part, phase] : parts) {
    if (contains(lower, part)) {
      return phase;
    }
  }
  return Phase::other;
}

}  // namespace commlens
