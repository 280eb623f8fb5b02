#pragma once
#include <string>
#include <vector>

#include "commlens/app/reproduce/sheet.hpp"

namespace commlens::study {

class Study;
struct ColdStages;

/// A claim of the paper as a check.
struct Takeaway {
  std::string id;  // "zero-3"
  std::string claim;
  std::string expected;
  std::string found;
  /// open: nothing here can say, for the reason in `why`.
  enum class Verdict : std::uint8_t { pass, fail, open } verdict = Verdict::open;
  Series series;
  std::string why = {};
};
std::string_view name_of(Takeaway::Verdict verdict);

/// A number with the ends of its interval, or of what was seen.
struct Range {
  double value = 0;
  double low = 0;
  double high = 0;
};
/// Pass where all of the range lies from `least` to `most`, fail where none of it does, else open.
Takeaway::Verdict decided(const Range& range, double least, double most);

/// Whether the first receives of a recording are slow. Decided over connections that first messages made
/// alone: a first receive also waits for the stage before, which says nothing of connections.
Takeaway cold_takeaway(const ColdStages& stages);

/// All of them, checked on what the study has.
std::vector<Takeaway> checked_takeaways(Study& study);

}  // namespace commlens::study
