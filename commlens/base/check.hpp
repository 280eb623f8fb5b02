#pragma once

namespace commlens {

/// Prints the failed check and aborts; called by COMMLENS_CHECK only.
[[noreturn]] void check_failed(const char* condition, const char* why, const char* file, int line);

}  // namespace commlens

/// Checks an invariant of our own code, in every build. `why` says why it must hold.
#define COMMLENS_CHECK(condition, why) \
  ((condition) ? static_cast<void>(0) : ::commlens::check_failed(#condition, why, __FILE__, __LINE__))
