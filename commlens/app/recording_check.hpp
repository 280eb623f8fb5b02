#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "commlens/compare/compare.hpp"
#include "commlens/plan/plan.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// A prediction compared with the recording of its run, without barriers.
struct RecordingCheck {
  std::int64_t calls = 0;                // of all ranks: the larger of predicted and recorded
  std::int64_t equal = 0;                // of these, exactly as predicted
  std::optional<std::int64_t> of_last;   // iterations, where the recording lacks the earlier ones
  std::optional<Comparison> comparison;  // absent if the two have no call in common
  bool all_equal() const { return calls == equal; }
};

/// Predicts `iterations` iterations, numbered from `first` on, and compares them with the recording.
RecordingCheck check_recording(const Plan& plan, const Trace& recorded, std::int64_t first,
                               std::int64_t iterations);

/// "prediction: 1248 of 1248 calls equal"; for one rank, a line that it makes no calls; "…, of the last
/// 12 iterations" where the earlier ones are lacking.
std::string verdict_line(const RecordingCheck& check);

}  // namespace commlens
