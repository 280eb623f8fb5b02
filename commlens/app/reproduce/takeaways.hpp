#pragma once
#include <string>
#include <vector>

#include "commlens/app/reproduce/sheet.hpp"

namespace commlens::study {

class Study;

/// A claim of the paper as a check.
struct Takeaway {
  std::string id;  // "zero-3"
  std::string claim;
  std::string expected;
  std::string found;
  enum class Verdict : std::uint8_t { pass, fail, open } verdict = Verdict::open;  // open: not checked here
  Series series;
};
std::string_view name_of(Takeaway::Verdict verdict);

/// All of them, checked on what the study has.
std::vector<Takeaway> checked_takeaways(Study& study);

}  // namespace commlens::study
