#include "commlens/machine/cost/call.hpp"

namespace commlens {

std::int64_t ring_steps(CommKind op, std::int64_t ranks) {
  switch (op) {
    case CommKind::all_reduce:
      return 2 * (ranks - 1);
    case CommKind::broadcast:
    case CommKind::reduce:
      return ranks;
    case CommKind::send:
    case CommKind::recv:
      return 1;
    default:
      return ranks - 1;
  }
}

double sent_share(CommKind op, std::int64_t ranks) {
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (op) {
    case CommKind::all_reduce:
      return 2 * others;
    case CommKind::all_gather:
    case CommKind::reduce_scatter:
    case CommKind::all_to_all:
      return others;
    default:
      return ranks > 1 ? 1 : 0;
  }
}

}  // namespace commlens
