#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "commlens/app/tune.hpp"
#include "commlens/base/result.hpp"
#include "commlens/tune/launches.hpp"

namespace commlens {

constexpr const char* k_tune_schema = "commlens.tune/1";

/// What one launch has measured, as the file of several keeps it.
TuneLaunch tune_launch_of(const TunedMessages& found, std::uint64_t seed, std::int64_t began_ns);

/// Decides `found` anew by the launches, of which one is its own; those of one burst (launch_bursts()) count
/// as one, with their medians. Messages and algorithms that it does not have count for nothing. Of a single
/// launch nothing changes.
void decide_over(TunedMessages& found, const std::vector<TuneLaunch>& launches,
                 const tune::SelectionOptions& selection);

nlohmann::ordered_json tune_launches_json(const std::vector<TuneLaunch>& launches);

/// The launches in a file that tune has written; none where the file is missing or empty. Fails where it is
/// none, is damaged, or holds other messages, ranks or another library than `now`.
Result<std::vector<TuneLaunch>> tune_launches_in(const std::string& file, const TuneResult& now);

/// Adds the launches of `result` to those in the file, decides by all, and writes the file; other jobs may do
/// the same. Fails as tune_launches_in(); throws SystemError where the file cannot be written.
Result<void> append_launches(const std::string& file, TuneResult& result,
                             const tune::SelectionOptions& selection);

}  // namespace commlens
