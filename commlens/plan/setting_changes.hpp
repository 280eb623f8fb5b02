#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/model/job.hpp"

namespace commlens {

/// A job with one setting changed.
struct SettingChange {
  std::string setting;  // as the framework's configuration names it: "reduce_bucket_size"
  std::string value;    // "20000", "false"
  Job job;
};

/// Every value worth trying of every setting that its framework has, but the one the job has already; the
/// hand-written list of what makes two runs of a model differ. `sizes`: element counts seen in a recording,
/// which a bucket limit may equal. The jobs are validated; what the rules refuse is left to make_plan.
std::vector<SettingChange> setting_changes(const Job& job, const std::vector<std::int64_t>& sizes);

}  // namespace commlens
