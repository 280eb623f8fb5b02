#include "commlens/trace/logger_view.hpp"

#include "commlens/comm/volume.hpp"

namespace commlens {

Bytes logged_bytes(const CommOp& op) {
  return op.kind == CommKind::all_gather ? op.input * op.dtype : message_bytes(op);
}

bool logger_sees(const Rule& rule) {
  return !rule.source.starts_with("neox") && !rule.source.starts_with("gpt-neox") &&
         !rule.source.starts_with("megatron") && !rule.source.starts_with("torch");
}

}  // namespace commlens
