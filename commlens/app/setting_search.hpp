#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/compare/compare.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// What sides differ in. A later one matters only where the earlier ones are equal.
enum class DifferIn : std::uint8_t {
  calls,           // of another size, missing or extra
  reduce_ops,      // calls that combine values otherwise
  order,           // sequences (one per rank and iteration) of equal calls
  initialisation,  // iterations that only the trace has
};

/// A setting under which a configuration would be closer to the compared trace.
struct SettingGuess {
  std::string setting;
  std::string value;
  std::int64_t explained = 0;  // differing calls that it removes, after the previous guesses
  std::int64_t remaining = 0;  // remaining differing calls
};

struct SettingSearch {
  DifferIn in = DifferIn::calls;  // what was searched for, and counted in the guesses
  std::int64_t differing = 0;
  std::vector<SettingGuess> guesses;
  Trace closest;        // predicted with them; empty without guesses
  std::string skipped;  // why nothing was tried; empty if settings were tried
};

/// Changes settings of `job` one after the other (at most three, each the one that explains most of the
/// remaining differences, and at least a tenth of them) to get closer to `other`; of several that explain as
/// many calls the one that comes closer in reduce ops, then in order. Where all calls are equal, settings are
/// searched that explain the reduce ops, else the order, else calls before the first iteration that no rule
/// predicted. No guess is returned unless nine tenths of the differences are explained in the end. Skipped,
/// with the reason, if the two have too many calls to try in seconds, or other ranks.
SettingSearch search_settings(const Job& job, const Trace& predicted, const Trace& other,
                              const CompareOptions& options);

/// "B looks as if reduce_bucket_size were 20000: explains 12 of 12 differing calls". `side`: A or B.
std::string search_text(const SettingSearch& search, std::string_view side);

}  // namespace commlens
