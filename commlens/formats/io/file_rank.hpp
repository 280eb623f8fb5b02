#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace commlens::formats {

/// Reason in Provenance::assumed of a file that does not say whose calls it holds, nor does its name.
constexpr const char* k_rank_unsaid = "rank not reported, numbered by file or process";

/// The number after the word "rank" or "worker" in a file's name: 34 of "rank-34.json", 3 of
/// "worker3_step_12.pt.trace.json"; nothing of other names.
std::optional<std::int64_t> rank_by_word(const std::filesystem::path& path);

/// The same, else the rank that a file's name ends with, before its extensions: 3 of "trace.3.et"
/// and "dlrm_eg_3.json.gz".
std::optional<std::int64_t> rank_in_name(const std::filesystem::path& path);

}  // namespace commlens::formats
