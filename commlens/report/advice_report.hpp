#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "commlens/advice/advice.hpp"
#include "commlens/base/table.hpp"

namespace commlens {

/// The cost of a step, the recommendations with their savings, and the settings that were studied without a
/// recommendation.
std::string advice_text(const Advice& advice, const TextStyle& style);

/// {"cost", "small_messages", "recommendations", "not_advised", "not_judged"}; volumes are of one steady
/// iteration, "per_rank" of the rank that sends most, "all_ranks" of the job.
nlohmann::ordered_json advice_json(const Advice& advice);

/// One line per recommendation; savings per iteration of the rank that sends most, negative: added.
std::string advice_csv(const Advice& advice);

}  // namespace commlens
