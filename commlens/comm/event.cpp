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

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

std::string_view name_of(CommKind kind) { return k_kind_names.at(static_cast<std::size_t>(kind)); }

std::optional<CommKind> comm_kind_from(std::string_view name) {
  for (std::size_t index = 0; index < k_kind_names.size(); ++index) {
    if (k_kind_names[index] == name) {
      return static_cast<CommKind>(index);
    }
  }
  return std::nullopt;
}

std::string_view name_of(Phase phase) { return k_phase_names.at(static_cast<std::size_t>(phase)); }

Phase phase_from(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
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
