#pragma once
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"
#include "commlens/compare/compare.hpp"
#include "commlens/compare/explain.hpp"

namespace commlens {

/// "equal: 1248 of 1248 calls (4 ranks, iterations -1 to 2)", or "different: …" with the differences.
std::string verdict_line(const Comparison& comparison, bool order_counts);

/// The verdict and what was not compared.
std::string comparison_head(const Comparison& comparison, bool order_counts, const TextStyle& style);
/// The same, and one line per kind of difference (at most `most`; 0: all).
std::string comparison_text(const Comparison& comparison, bool order_counts, const TextStyle& style,
                            std::size_t most = 40);
/// One line per kind of difference (at most `most`; 0: all), with titles.
std::string differences_text(const std::vector<Difference>& differences, const TextStyle& style,
                             std::size_t most);
Table differences_table(std::span<const Difference> differences);
nlohmann::ordered_json comparison_json(const Comparison& comparison, bool order_counts);
/// `order_counts` adds a column, and a line, for the sequences whose order alone differs.
std::string comparison_csv(const Comparison& comparison, bool order_counts = false);

/// Volumes per axis and op of one iteration, over all ranks.
bool all_equal(const std::vector<VolumeDifference>& rows);
std::string volumes_text(const std::vector<VolumeDifference>& rows, const TextStyle& style);
nlohmann::ordered_json volumes_json(const std::vector<VolumeDifference>& rows);
/// With an explanation, totals come first, then one line per cause.
std::string volumes_csv(const std::vector<VolumeDifference>& rows, const Explanation* explanation = nullptr);

/// A printed log against a prediction: one line per op and printed size. `other` is what the log is compared
/// with: "predicted", or "A" or "B" for a side that was recorded.
std::string logged_text(const LoggedComparison& comparison, const TextStyle& style,
                        std::string_view other = "predicted");
nlohmann::ordered_json logged_json(const LoggedComparison& comparison, std::string_view other = "predicted");
std::string logged_csv(const LoggedComparison& comparison, std::string_view other = "predicted");

}  // namespace commlens
