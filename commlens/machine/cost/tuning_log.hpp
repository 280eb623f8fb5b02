#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/machine/cost/library.hpp"

namespace commlens {

/// The table that NCCL prints with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING, anywhere in a log: latency (us)
/// and bandwidth (GB/s) of each operation, algorithm and protocol.
///   … NCCL INFO    Algorithm |  Tree  |  Ring  | …
///   … NCCL INFO    AllReduce |  15.2/   4.1 |  …
/// Fails where there is none.
Result<std::vector<TunedPair>> parse_tuning_log(const std::string& file, std::string_view content);

}  // namespace commlens
