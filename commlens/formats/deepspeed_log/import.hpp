#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::deepspeed_log {

/// What DeepSpeed's comms logger prints, anywhere in a training log (docs/formats/deepspeed-log.md): the last
/// complete summary table or, where there is none, the verbose lines. Calls of rank 0 without iterations,
/// groups and times; sizes are known to within CommOp::rounding and mean what the logger counts
/// (Accounting::comms_logger).
Result<Trace> read(const std::filesystem::path& path);

/// True when the text holds a header of a summary table or a verbose line; text is searched beyond `head`.
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::deepspeed_log
