#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "commlens/model/job.hpp"

namespace commlens {

/// Names of the built-in models: 19M 49M 125M 350M 760M 1.3B 2.7B 6.7B 13B 20B 175B.
std::span<const std::string_view> preset_names();

/// The GPT-NeoX config of that name as a job (sequence 2048, micro-batch 4, one micro-batch, fp16, ZeRO-1),
/// framework neox; std::nullopt if there is no such preset. "1-3B", "1.3b" and "1.3B" are the same. Source:
/// gpt-neox configs/*.yml at commit 4bc66703.
std::optional<Job> preset(std::string_view name);

}  // namespace commlens
