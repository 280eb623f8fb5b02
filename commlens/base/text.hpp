#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"

namespace commlens {

/// The candidate with the fewest edits from `word`, if at most a third of its letters differ; else empty.
std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

/// `text` with every `from`, which is not empty, replaced by `to`.
std::string replaced(std::string text, std::string_view from, std::string_view to);

/// A whole decimal number in [-2^63, 2^63); the error names the text.
Result<std::int64_t> parse_integer(std::string_view text);

/// A finite decimal number; the error names the text.
Result<double> parse_number(std::string_view text);

}  // namespace commlens
