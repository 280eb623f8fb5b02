#pragma once
#include <cstdint>

#include "commlens/base/table.hpp"

namespace commlens {

/// How a result is written: a table for people, JSON (docs/ describes each schema), CSV. Every result of a
/// verb has `rendered(result, format, style)`; the style (width, colour) is that of tables alone.
enum class Format : std::uint8_t { table, json, csv };

}  // namespace commlens
