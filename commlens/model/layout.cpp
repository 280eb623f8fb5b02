#include "commlens/model/layout.hpp"

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace commlens {
namespace {

constexpr std::int64_t k_most_ranks = std::int64_t{1} << 24;  // as a trace: k_max_ranks of trace.hpp

using Degree = std::pair<std::string_view, std::int64_t>;

/// The product, or nothing when it is more ranks than any machine has.
std::optional<std::int64_t> product(std::span<const Degree> degrees) {
  std::int64_t ranks = 1;
  for (const auto& [name, degree] : degrees) {
    if (__builtin_mul_overflow(ranks, degree, &ranks) || ranks > k_most_ranks) {
      return std::nullopt;
    }
  }
  return ranks;
}

std::string spelled(std::span<const Degree> degrees) {
  std::string text;
  for (const auto& [name, degree] : degrees) {
    if (degree != 1) {
      text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name, degree);
    }
  }
  return text.empty() ? "one rank" : text;
}

/// The same with the product behind it when that says more.
std::string with_product(std::span<const Degree> degrees, std::int64_t ranks) {
  const std::string text = spelled(degrees);
  return text.find(" x ") == std::string::npos ? text : fmt::format("{} = {}", text, ranks);
}

}  // namespace

Result<ParallelLayout> resolved(ParallelLayout layout) {
  const std::array<Degree, 7> positive = {{{"tp", layout.tp},
                                           {"pp", layout.pp},
                                           {"cp", layout.cp},
                                           {"ep", layout.ep},
                                           {"replicate", layout.replicate},
                                           {"virtual stages", layout.virtual_stages},
                                           {"ranks", layout.ranks == 0 ? 1 : layout.ranks}}};
  for (const auto& [name, degree] : positive) {
    if (degree < 1) {
      return failure(fmt::format("{} is {}; it must be at least 1", name, degree));
    }
  }
  if (layout.dp < 0) {
    return failure(fmt::format("dp is {}; it must be at least 1", layout.dp));
  }
  const bool dp_is_free = layout.dp == 0;
  const std::array<Degree, 5> degrees = {{{"tp", layout.tp},
                                          {"pp", layout.pp},
                                          {"cp", layout.cp},
                                          {"replicate", layout.replicate},
                                          {"dp", dp_is_free ? 1 : layout.dp}}};
  const std::optional<std::int64_t> ranks = product(degrees);
  if (!ranks) {
    return failure(
        fmt::format("{} is more than {} ranks; use smaller degrees", spelled(degrees), k_most_ranks));
  }
  if (layout.ranks > k_most_ranks) {
    return failure(fmt::format("ranks is {}; at most {} are supported", layout.ranks, k_most_ranks));
  }
  if (dp_is_free && layout.ranks != 0) {
    if (layout.ranks % *ranks != 0) {
      return failure(fmt::format("{} ranks are not divisible by {}; change --ranks, --tp or --pp",
                                 layout.ranks, with_product(degrees, *ranks)));
    }
    layout.dp = layout.ranks / *ranks;
  } else if (layout.ranks != 0 && layout.ranks != *ranks) {
    return failure(fmt::format("{} needs {} ranks, the job has {}; change --ranks, --dp, --tp or --pp",
                               spelled(degrees), *ranks, layout.ranks));
  } else {
    layout.dp = dp_is_free ? 1 : layout.dp;
    layout.ranks = *ranks;
  }
  if (layout.dp % layout.ep != 0) {
    return failure(
        fmt::format("dp {} is not divisible by ep {}; change --dp, --ep or --ranks", layout.dp, layout.ep));
  }
  return layout;
}

}  // namespace commlens
