#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/compare/compare.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// A setting under which a configuration would be closer to the compared trace.
struct SettingGuess {
  std::string setting;
  std::string value;
  std::int64_t explained = 0;  // differing calls that it removes, after the previous guesses
  std::int64_t remaining = 0;  // remaining differing calls
};

struct SettingSearch {
  std::int64_t differing = 0;  // calls of another size, missing or extra
  std::vector<SettingGuess> guesses;
  Trace closest;        // predicted with them; empty without guesses
  std::string skipped;  // why nothing was tried; empty if settings were tried
};

/// Changes settings of `job` one after the other (at most three, each the one that explains most of the
/// remaining differences, and at least a tenth of them) to get closer to `other`. No guess is returned unless
/// nine tenths of the differing calls are explained in the end. Skipped, with the reason, if the two have too
/// many calls to try in seconds, or other ranks.
SettingSearch search_settings(const Job& job, const Trace& predicted, const Trace& other,
                              const CompareOptions& options);

/// "B looks as if reduce_bucket_size were 20000: explains 12 of 12 differing calls". `side`: A or B.
std::string search_text(const SettingSearch& search, std::string_view side);

}  // namespace commlens
