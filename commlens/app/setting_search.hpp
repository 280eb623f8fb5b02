#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/compare/compare.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// A setting under which a configuration would be closer to the trace it is compared with.
struct SettingGuess {
  std::string setting;
  std::string value;
  std::int64_t explained = 0;  // differing calls that vanish, after the guesses before it
  std::int64_t remaining = 0;  // that are left
};

struct SettingSearch {
  std::int64_t differing = 0;  // calls of another size, missing or extra
  std::vector<SettingGuess> guesses;
  Trace closest;        // predicted with them; empty without guesses
  std::string skipped;  // why nothing was tried; empty when it was
};

/// Changes one setting of `job` after the other (at most three, each the one that explains most of what is
/// left, and at least a tenth of it) to come closer to `other`. Nothing is guessed unless nine tenths of the
/// differing calls are explained in the end. Skipped, saying so, where the two have more calls than can be
/// tried in seconds, or other ranks.
SettingSearch search_settings(const Job& job, const Trace& predicted, const Trace& other,
                              const CompareOptions& options);

/// "B looks as if reduce_bucket_size were 20000: explains 12 of 12 differing calls". `side`: A or B.
std::string search_text(const SettingSearch& search, std::string_view side);

}  // namespace commlens
