#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "commlens/base/rank.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens {

/// "gather", "scatter"; "other" for none.
std::string_view name_of(OtherCall call);

/// Whether a call says how large each rank's part is.
inline bool has_parts(const CommCall& call) {
  return !call.input_parts.empty() || !call.output_parts.empty();
}

/// The error in a single call, made by `self` in a group of `ranks`; empty if it is valid.
std::string fault_of(const CommCall& call, GroupRank self, std::int64_t ranks);
/// Throws it as a SystemError.
void throw_fault_of(const CommCall& call, GroupRank self, std::int64_t ranks);

/// Whether the calls of two ranks of a group match (or are a send and its recv). Says nothing of the sizes of
/// unequal parts.
bool agree(const CommCall& left, const CommCall& right);

/// A rank of a group and of the job.
struct Caller {
  GroupRank place;
  Rank rank;
};

/// Where the sizes of the unequal parts of two calls that agree() do not match, in words; empty if they do.
std::string parts_mismatch(const CommCall& left, Caller left_by, const CommCall& right, Caller right_by);

/// "all_reduce of 10 fp32", for messages.
std::string to_text(const CommCall& call);

}  // namespace commlens
