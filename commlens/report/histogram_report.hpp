#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"
#include "commlens/summary/histogram.hpp"

namespace commlens {

/// A row per power of two.
Table sizes_table(const SizeHistogram& histogram);

/// A line per power of two with a bar for its calls, and the share of small messages, over all ranks or
/// those that `scope` names.
std::string histogram_text(const SizeHistogram& histogram, const TextStyle& style);
nlohmann::ordered_json histogram_json(const SizeHistogram& histogram, const std::string& scope = "all ranks");
std::string histogram_csv(const SizeHistogram& histogram);

}  // namespace commlens
