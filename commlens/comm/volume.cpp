#include "commlens/comm/volume.hpp"

#include "commlens/base/check.hpp"

namespace commlens {
namespace {
__extension__ using Wide = __int128;  // a message times the ranks of a group may pass 2^63
}

Bytes message_bytes(const CommOp& op) {
  switch (op.kind) {
    case CommKind::all_gather:
    case CommKind::recv:
      return op.output * op.dtype;
    case CommKind::barrier:
      return {0};
    case CommKind::all_reduce:
    case CommKind::reduce_scatter:
    case CommKind::all_to_all:
    case CommKind::broadcast:
    case CommKind::reduce:
    case CommKind::send:
    case CommKind::other:
      return op.input * op.dtype;
  }
  return {0};
}

Bytes wire_bytes(CommKind kind, Bytes message, std::int64_t ranks) {
  COMMLENS_CHECK(ranks >= 1, "a group has at least one member");
  const Wide share = static_cast<Wide>(message.value) * (ranks - 1);
  switch (kind) {
    case CommKind::all_reduce:
      return {static_cast<std::int64_t>(2 * share / ranks)};
    case CommKind::all_gather:
    case CommKind::reduce_scatter:
    case CommKind::all_to_all:
    case CommKind::broadcast:
    case CommKind::reduce:
      return {static_cast<std::int64_t>(share / ranks)};
    case CommKind::send:
      return ranks > 1 ? message : Bytes{0};
    case CommKind::recv:
    case CommKind::barrier:
    case CommKind::other:
      return {0};
  }
  return {0};
}

double bus_factor(CommKind kind, std::int64_t ranks) {
  COMMLENS_CHECK(ranks >= 1, "a group has at least one member");
  const double n = static_cast<double>(ranks);
  switch (kind) {
    case CommKind::all_reduce:
      return 2.0 * (n - 1.0) / n;
    case CommKind::all_gather:
    case CommKind::reduce_scatter:
    case CommKind::all_to_all:
      return (n - 1.0) / n;
    case CommKind::broadcast:
    case CommKind::reduce:
    case CommKind::send:
    case CommKind::recv:
    case CommKind::barrier:
    case CommKind::other:
      return 1.0;
  }
  return 1.0;
}

}  // namespace commlens
