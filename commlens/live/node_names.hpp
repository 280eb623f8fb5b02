#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include "commlens/live/job_progress.hpp"
#include "commlens/trace/json_fields.hpp"

// Words of a node's state in its file.
namespace commlens {

constexpr std::string_view k_node_schema = "commlens.node/1";
constexpr std::string_view k_collective_channel = "collective";
constexpr std::string_view k_pair_channel = "pair";
constexpr std::string_view k_window_channel = "window";

/// Of a rank's requests under way, and of its blocking calls, so many are told, the earliest ones; how many
/// there are is told, too.
constexpr std::size_t k_most_calls_of_node = 256;
/// A difference of more sides is none that anybody could read.
constexpr std::size_t k_most_sides_of_node = 64;
/// Times of blocks of calls have so many digits, in units of at most so many ns.
constexpr std::int64_t k_longest_time_of_node = 99'999;
constexpr std::int64_t k_largest_unit_of_node = 100'000'000'000;

std::string_view name_of(CallPart part);

inline bool is_number_in(const nlohmann::json& value, JsonFields::Range range) {
  const bool is_number =
      value.is_number_integer() &&
      (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{INT64_MAX});
  return is_number && value.get<std::int64_t>() >= range.first && value.get<std::int64_t>() <= range.second;
}

}  // namespace commlens
