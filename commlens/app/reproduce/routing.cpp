#include "commlens/app/reproduce/routing.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "commlens/base/check.hpp"

namespace commlens::study {
namespace {

/// What each expert would get if copies could be divided. An expert that is wanted by more tokens than there
/// are gets all tokens; the rest is shared out anew among the others.
std::vector<double> divided_copies(const SkewedRouter& router) {
  std::vector<double> weights;
  for (std::int64_t expert = 1; expert <= router.experts; ++expert) {
    weights.push_back(std::pow(static_cast<double>(expert), -router.exponent));
  }
  const auto tokens = static_cast<double>(router.tokens);
  double left = tokens * static_cast<double>(router.top_k);
  std::vector<double> copies;
  // Weights descend: once an expert is not full, none behind it is.
  for (auto weight = weights.begin(); weight != weights.end(); ++weight) {
    const double share = left * *weight / std::accumulate(weight, weights.end(), 0.0);
    copies.push_back(std::min(share, tokens));
    left -= copies.back();
  }
  return copies;
}

}  // namespace

std::vector<std::int64_t> routed_copies(const SkewedRouter& router) {
  COMMLENS_CHECK(router.top_k <= router.experts, "a token chooses different experts");
  const std::vector<double> divided = divided_copies(router);
  std::vector<std::int64_t> copies;
  std::vector<std::size_t> order(divided.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  constexpr double rounding = 1e-9;  // of sums that are whole numbers
  for (const double share : divided) {
    copies.push_back(static_cast<std::int64_t>(std::floor(share + rounding)));
  }
  std::ranges::stable_sort(order, [&](std::size_t one, std::size_t other) {
    return divided[one] - static_cast<double>(copies[one]) >
           divided[other] - static_cast<double>(copies[other]) + rounding;
  });
  std::int64_t left =
      router.tokens * router.top_k - std::accumulate(copies.begin(), copies.end(), std::int64_t{0});
  for (auto expert = order.begin(); left > 0; ++expert, --left) {
    ++copies[*expert];
  }
  return copies;
}

std::int64_t expert_capacity(const SkewedRouter& router, double factor) {
  return static_cast<std::int64_t>(std::ceil(factor * static_cast<double>(router.tokens * router.top_k) /
                                             static_cast<double>(router.experts)));
}

std::vector<std::int64_t> with_capacity(std::vector<std::int64_t> copies, std::int64_t capacity,
                                        bool is_padded) {
  for (std::int64_t& of_expert : copies) {
    of_expert = is_padded ? capacity : std::min(of_expert, capacity);
  }
  return copies;
}

std::vector<std::int64_t> copies_for_ranks(std::span<const std::int64_t> copies, std::int64_t ranks) {
  COMMLENS_CHECK(std::ssize(copies) % ranks == 0, "ranks hold equal blocks of experts");
  const auto block = copies.size() / static_cast<std::size_t>(ranks);
  std::vector<std::int64_t> sums;
  for (std::size_t first = 0; first < copies.size(); first += block) {
    const auto part = copies.subspan(first, block);
    sums.push_back(std::accumulate(part.begin(), part.end(), std::int64_t{0}));
  }
  return sums;
}

}  // namespace commlens::study
