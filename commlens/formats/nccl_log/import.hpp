#pragma once
#include <filesystem>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::formats::nccl_log {

/// What NCCL and RCCL print of their calls with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL, anywhere in a
/// log of any number of processes (docs/formats/nccl-log.md). Calls have no times and no iterations. Global
/// ranks, members and roots come from the lines of communicators (INIT) where they are there.
Result<Trace> read(const std::filesystem::path& path);

/// True when a line of the text is a call of NCCL's log; text is searched beyond `head`.
bool sniff(const std::filesystem::path& path, std::string_view head);

}  // namespace commlens::formats::nccl_log
