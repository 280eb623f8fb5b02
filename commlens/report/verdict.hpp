#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/report/figures/figure_input.hpp"

namespace commlens {

/// What a report says first: whether two sides are equal, who is late, what dominates; with numbers, in one
/// or two sentences for each thing that was given.
struct ReportVerdict {
  enum class Tone : std::uint8_t { neutral, good, bad };
  Tone tone = Tone::neutral;  // good: equal; bad: different, or a rank is slow
  std::vector<std::string> sentences;
};
ReportVerdict verdict_of(const FigureInput& input);

/// The configuration of what search and simulate have written, one entry for each.
std::vector<InputFacts> document_facts(const ResultDocuments& documents);

}  // namespace commlens
