#pragma once
#include <cstdint>

namespace commlens {

/// How far a call has come.
enum class CallState : std::uint8_t { finished, under_way, failed, cancelled };

}  // namespace commlens
