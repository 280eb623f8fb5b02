#include "commlens/formats/io/op_details.hpp"

namespace commlens::formats {

std::vector<OpDetail> op_details(const Trace& trace, const CommOp& op) {
  std::vector<OpDetail> details;
  const auto add = [&](std::string_view key, const auto& value, const auto& usual) {
    if (value != usual) {
      details.push_back({key, std::string(name_of(value)), false});
    }
  };
  const auto add_text = [&](std::string_view key, NameId id) {
    if (id != NameId{}) {
      details.push_back({key, trace.names.text(id), false});
    }
  };
  add("match", op.match, Match::exact);
  add("reduce_op", op.reduction, Reduction::unknown);
  add("algorithm", op.algorithm, Algorithm::unknown);
  add("protocol", op.protocol, Protocol::unknown);
  if (op.blocking) {
    details.push_back({"blocking", *op.blocking ? "true" : "false", true});
  }
  add_text("site", op.site);
  add_text("note", op.note);
  return details;
}

}  // namespace commlens::formats
