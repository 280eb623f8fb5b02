#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace commlens {

/// Random numbers that are the same everywhere (the standard's distributions are not). SplitMix64, public
/// domain, S. Vigna: https://prng.di.unimi.it/splitmix64.c
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// In [0, end), `end` > 0.
  std::size_t below(std::size_t end) { return static_cast<std::size_t>(next() % end); }

 private:
  std::uint64_t state_;
};

/// The text with one to four faults of the kinds that files have: flipped bits, overwritten bytes, an end cut
/// off, lines, fields or JSON objects that are missing, doubled or swapped, and other numbers. The same for
/// the same text and seed; may be equal to the text.
std::string mutated(std::string_view text, std::uint64_t seed);

}  // namespace commlens
