#pragma once
#include <cstdint>

#include "commlens/base/table.hpp"

namespace commlens {

/// Format of a result: a table for people, JSON (docs/ describes each schema) or CSV. Every result of a verb
/// has `rendered(result, format, style)`; the style (width, colour) applies to tables only.
enum class Format : std::uint8_t { table, json, csv };

}  // namespace commlens
