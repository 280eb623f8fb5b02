#pragma once
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"

namespace commlens {

/// How the message ends where the rules of one framework do not cover what those of another may. It names no
/// other one: which of them do takes the place of these words where all are known (frameworks/fitting.hpp).
constexpr std::string_view k_covered_elsewhere = "; other rules may cover it";

inline tl::unexpected<Error> not_covered(std::string message) {
  return failure(message.append(k_covered_elsewhere));
}

}  // namespace commlens
