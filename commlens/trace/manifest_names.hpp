#pragma once
#include <array>
#include <string_view>

namespace commlens {

/// Names of Span::Shape and GroupPattern::Shape in manifest.json, in the order of the enumerators.
constexpr std::array<std::string_view, 5> k_span_names = {"own", "all", "block", "stride", "ends"};
constexpr std::array<std::string_view, 5> k_shape_names = {"mesh", "to_next", "to_previous", "from_next",
                                                           "from_previous"};

}  // namespace commlens
