#pragma once
#include <string>

#include "commlens/report/figures/figure.hpp"

namespace commlens {

/// A figure with all its rows, schema commlens.figure/1 (docs/report.md#data): id, title, caption, kind,
/// notes, options and columns, each with its values; null for a missing value.
std::string figure_json(const Figure& figure);

/// The same table as CSV: names of the columns, then a line per row; empty where there is no value.
std::string figure_csv(const Figure& figure);

/// Appends {"category":"call","stacked":true,…}.
void append_options_json(std::string& out, const FigureOptions& options);

}  // namespace commlens
