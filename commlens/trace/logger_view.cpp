#include "commlens/trace/logger_view.hpp"

#include <string_view>

#include "commlens/comm/volume.hpp"

namespace commlens {

Bytes logged_bytes(const CommOp& op) {
  return op.kind == CommKind::all_gather ? op.input * op.dtype : message_bytes(op);
}

bool logger_sees(const Rule& rule) {
  const std::string_view source = rule.source;
  const std::string_view library = source.substr(0, source.find(' '));
  const bool is_of_no_library = library.empty() || library == "arXiv" || library.starts_with("docs/");
  return is_of_no_library || library == "deepspeed";
}

}  // namespace commlens
