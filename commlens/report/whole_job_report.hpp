#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "commlens/base/table.hpp"
#include "commlens/compare/whole_job.hpp"

namespace commlens {

/// The verdict, the scope of the comparison, and one line per op, group and size, differing ones first, at
/// most `most` lines (0: all).
std::string whole_job_text(const WholeJobComparison& comparison, const TextStyle& style,
                           std::size_t most = 40);
nlohmann::ordered_json whole_job_json(const WholeJobComparison& comparison);
std::string whole_job_csv(const WholeJobComparison& comparison);

}  // namespace commlens
