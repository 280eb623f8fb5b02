// Communication that the trace shows apart from computing, and the setting that would overlap it.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "commlens/advice/topics.hpp"
#include "commlens/summary/overlap.hpp"

namespace commlens {
namespace {

using std::chrono::nanoseconds;

/// Means over ranks and steady iterations.
struct Exposure {
  nanoseconds gradients{};  // exposed time of the calls that reduce gradients along dp
  nanoseconds all{};        // exposed time of all calls
  nanoseconds step{};       // length of the iterations
  nanoseconds compute{};    // of which nothing overlapped yet
  std::int64_t count = 0;
};

}  // namespace

void advise_overlap(Study& study) { (void)study; }

}  // namespace commlens
