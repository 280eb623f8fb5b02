#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace commlens {

/// Reason in Provenance::skipped of a file that does not say whose calls it holds, nor does its name.
constexpr const char* k_skipped_rank_unsaid = "rank not said, numbered by file or process";

/// The rank that a file's name ends with, before its extensions: 3 of "trace.3.et", "nccl_trace_rank_3" and
/// "dlrm_eg_3.json.gz"; nothing of other names.
std::optional<std::int64_t> rank_in_name(const std::filesystem::path& path);

}  // namespace commlens
