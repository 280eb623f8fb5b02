#include "commlens/base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace commlens {

void check_failed(const char* condition, const char* why, const char* file, int line) {
  std::fprintf(stderr, "commlens: internal error at %s:%d: %s (%s)\n", file, line, condition, why);
  std::abort();
}

}  // namespace commlens
