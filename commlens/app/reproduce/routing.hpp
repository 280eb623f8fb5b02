#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace commlens::study {

/// A router that prefers experts: the e-th of them, from 1 on, is wanted with the weight e^-exponent (Zipf);
/// with exponent 0 all alike.
struct SkewedRouter {
  std::int64_t experts = 1;
  std::int64_t top_k = 1;   // experts a token, all different
  std::int64_t tokens = 1;  // of a rank
  double exponent = 0;
};

/// How many tokens of a rank go to each expert: `tokens` x `top_k` copies in all, shared out by weight, the
/// largest remainders rounded up; of one expert at most `tokens`, and what is above goes to the others.
std::vector<std::int64_t> routed_copies(const SkewedRouter& router);

/// What an expert takes of the tokens of a rank with a capacity factor C: C n k / E, rounded up.
std::int64_t expert_capacity(const SkewedRouter& router, double factor);

/// Copies that are sent with a capacity: none above it; `is_padded`: each expert gets as many.
std::vector<std::int64_t> with_capacity(std::vector<std::int64_t> copies, std::int64_t capacity,
                                        bool is_padded);

/// Copies for each of `ranks` ranks, which hold equal blocks of the experts.
std::vector<std::int64_t> copies_for_ranks(std::span<const std::int64_t> copies, std::int64_t ranks);

}  // namespace commlens::study
