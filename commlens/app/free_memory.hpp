#pragma once
#include <optional>
#include <string_view>

#include "commlens/base/result.hpp"
#include "commlens/base/units.hpp"

namespace commlens {

/// MemAvailable of /proc/meminfo; std::nullopt where it does not say.
std::optional<Bytes> free_memory();

/// Fails where buffers take more than this machine has free (MemAvailable; any size, where it does not say).
///   needed  by all ranks of this machine
///   advice  what to do: "time smaller messages, or fewer ranks"
Result<void> check_free_memory(Bytes needed, std::string_view advice);

}  // namespace commlens
