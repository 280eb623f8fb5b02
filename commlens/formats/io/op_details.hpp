#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/trace/trace.hpp"

namespace commlens::formats {

/// A word that describes a call, by its field of a calls file (docs/formats/calls.md).
struct OpDetail {
  std::string_view key;
  std::string text;
  bool is_flag = false;  // "true" or "false"
};

/// Their keys, in the order in which op_details has them.
constexpr std::array<std::string_view, 7> k_op_detail_keys = {
    "match", "reduce_op", "algorithm", "protocol", "blocking", "site", "note"};

/// The words of an op; those that are not known are absent.
std::vector<OpDetail> op_details(const Trace& trace, const CommOp& op);

}  // namespace commlens::formats
