#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"
#include "commlens/compare/regression.hpp"

namespace commlens {

/// The verdict on the first line, then every row with both medians, their ratio and the adjusted p-value.
std::string regression_text(const Regression& regression, const TextStyle& style);

/// {"schema": "commlens.compare_regression/1", …}; times in seconds, medians over iterations.
nlohmann::ordered_json regression_json(const Regression& regression);

std::string regression_csv(const Regression& regression);

}  // namespace commlens
