#pragma once
#include <string>
#include <string_view>

#include "commlens/report/figures/figure.hpp"

namespace commlens {

/// RFC 4648 base64 of `bytes` after RFC 1950 compression: what a browser's DecompressionStream("deflate")
/// reads.
std::string deflated_base64(std::string_view bytes);

/// Appends one column as the page reads it (docs/report.md#data-in-the-page):
///   {"name", "title", "unit", "type", "rows", "encoding": "deflate-base64", "data"}
/// Integers take the smallest of u8, u16, u32, i32 and f64 that holds them all; f64 is exact up to 2^53 and
/// stores a missing value as NaN. Ascending columns are f64delta: the first value, then differences. Texts
/// have a "dictionary" and u32 indices into it.
void append_column_json(std::string& out, const FigureColumn& column);

}  // namespace commlens
