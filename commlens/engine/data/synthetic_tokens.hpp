#pragma once
#include <cstdint>
#include <memory>

#include "commlens/engine/data/token_source.hpp"

namespace commlens::engine {

/// An endless sequence of artificial words of eight tokens from a lexicon of 64, the first ones frequent, the
/// last ones rare: a model that has learnt the words predicts all but the first token of each. Tokens are
/// below `vocab` (>= 1).
std::unique_ptr<TokenSource> synthetic_tokens(std::int64_t vocab, std::uint64_t seed);

/// Well-mixed 64 bits (SplitMix64's output function). Source: Steele, Lea, Flood, OOPSLA 2014.
std::uint64_t mixed_bits(std::uint64_t value);

/// mixed_bits scaled to [0, limit), limit >= 1.
std::int64_t mixed_below(std::uint64_t value, std::int64_t limit);

}  // namespace commlens::engine
