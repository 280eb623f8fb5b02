#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"
#include "commlens/compare/explain.hpp"

namespace commlens {

/// The causes with what each contributes per axis and op, why (with the source line of the rule), and last,
/// in full, what is unexplained. Empty when there is nothing to say.
std::string explanation_text(const Explanation& explanation, const TextStyle& style);

/// A call-by-call comparison: the calls that differ by what they are for, and why such calls exist; then one
/// line per kind of difference whose cause is known (at most `most`); last and in full what is unexplained.
/// `hints`: lines that stand between.
std::string explained_differences_text(const std::vector<Difference>& differences,
                                       const Explanation& explanation, const std::string& hints,
                                       const TextStyle& style, std::size_t most = 40);

/// Adds `explained`, `unexplained`, `unexplained_calls` and `notes` to the JSON of a comparison.
void add_explanation(const Explanation& explanation, nlohmann::ordered_json& json);

/// Adds to a table of volumes_csv what each cause contributes to an axis and op.
void add_explanation(const Explanation& explanation, Table& table);

}  // namespace commlens
