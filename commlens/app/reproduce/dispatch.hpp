#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/app/reproduce/routing.hpp"
#include "commlens/base/result.hpp"
#include "commlens/base/units.hpp"

namespace commlens::study {

/// Tokens that ranks send to each other's experts: how they are routed, and with what capacity.
struct RoutedTokens {
  std::string setting;  // "Zipf 1, C = 1.25"
  SkewedRouter router;
  double capacity = 0;  // 0: none
  bool is_padded = false;

  /// Copies of the tokens of a rank that go to each of `ranks` ranks.
  std::vector<std::int64_t> copies(std::int64_t ranks) const;
  /// The share of the copies that the capacity drops.
  double dropped_share() const;
};

/// Mixtral's eight experts, two a token, 4,096 tokens a rank: balanced, skewed, with capacities.
std::vector<RoutedTokens> routed_settings();
constexpr std::int64_t k_expert_ranks = 8;

/// What a rank sends and receives in a dispatch, its own experts' tokens included.
struct DispatchedBytes {
  Bytes sent;
  Bytes received;
};
/// By the closed form, of each rank: all ranks route alike, so that a rank receives as often what each of
/// them has for it; `hidden` 16-bit elements a token.
std::vector<DispatchedBytes> dispatched(const RoutedTokens& tokens, std::int64_t hidden);

/// Dispatches of all settings that ranks have made: of each setting what each rank sent and received.
struct RecordedDispatches {
  std::string provenance;
  std::int64_t hidden = 0;
  std::vector<std::vector<DispatchedBytes>> bytes;
};
constexpr const char* k_dispatch_recording = "routed-experts";
/// Makes them between threads, each setting an iteration, and reads them from the recording that is left in
/// `directory`. Fails where the recording lacks calls; throws SystemError.
Result<RecordedDispatches> recorded_dispatches(const std::string& directory);

}  // namespace commlens::study
