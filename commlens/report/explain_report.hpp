#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"
#include "commlens/compare/explain.hpp"

namespace commlens {

/// The causes with their contributions per axis and op, the reason (with the source line of the rule), and
/// last, in full, the unexplained differences. Empty if nothing differs.
std::string explanation_text(const Explanation& explanation, const TextStyle& style);

/// A call-by-call comparison: the differing calls by purpose, and why such calls exist; then one line per
/// kind of difference whose cause is known (at most `most`); last and in full the unexplained ones. `hints`:
/// lines printed in between.
std::string explained_differences_text(const std::vector<Difference>& differences,
                                       const Explanation& explanation, const std::string& hints,
                                       const TextStyle& style, std::size_t most = 40);

/// Adds `explained`, `unexplained`, `unexplained_calls` and `notes` to the JSON of a comparison.
void add_explanation(const Explanation& explanation, nlohmann::ordered_json& json);

/// Adds to a table of volumes_csv the contribution of each cause to an axis and op.
void add_explanation(const Explanation& explanation, Table& table);

}  // namespace commlens
