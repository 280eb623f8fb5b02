#pragma once
#include <cstddef>
#include <string>

#include "commlens/report/figures/figure.hpp"

namespace commlens {

constexpr std::size_t k_most_table_rows = 1000;

/// Adds the table of a figure, up to k_most_table_rows rows; the script makes it sortable. Cells whose text
/// does not sort as their value does have it in `data-value`; rows say their op and axis where the figure has
/// these.
void append_table(std::string& out, const Figure& figure);

/// Adds the settings of a figure of `what` and `value`, or of `trace`, `what` and `value`: a list, or with
/// several traces a table with a column for each.
void append_facts(std::string& out, const Figure& figure);

}  // namespace commlens
