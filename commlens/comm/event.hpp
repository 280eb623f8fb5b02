#pragma once
#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

#include "commlens/base/dtype.hpp"
#include "commlens/base/rank.hpp"
#include "commlens/base/units.hpp"

namespace commlens {

enum class CommKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  reduce,
  send,
  recv,
  barrier,
  other  // anything else (scan, gather, one-sided, …), under its original name
};
std::string_view name_of(CommKind kind);
std::optional<CommKind> comm_kind_from(std::string_view name);
constexpr bool is_point_to_point(CommKind kind) { return kind == CommKind::send || kind == CommKind::recv; }
/// Whether the kind has a root: one rank that sends to, or receives from, all others.
constexpr bool has_root(CommKind kind) { return kind == CommKind::broadcast || kind == CommKind::reduce; }

/// The part of a training iteration a call belongs to.
enum class Phase : std::uint8_t { init, forward, recompute, backward, optimizer, other };
std::string_view name_of(Phase phase);

/// The phase for the name that another tool uses ("step", "RecvGrad", …); `other` if it is unknown.
Phase phase_from(std::string_view text);

/// Rows of the tables in trace/trace.hpp. 0 is the empty entry of each table of strings.
enum class GroupId : std::uint32_t {};
enum class TagId : std::uint32_t {};
enum class RuleId : std::uint32_t {};
enum class NameId : std::uint32_t {};
enum class OpId : std::uint32_t {};

/// A requested call, independent of its time and of the algorithm that carries it out. The meaning of `input`
/// and `output` for each kind is fixed in comm/volume.hpp.
struct CommOp {
  CommKind kind = CommKind::other;
  DType dtype = DType::uint8;
  Phase phase = Phase::other;
  bool data_dependent = false;    // sizes are expected values (routing decides them); only the count is exact
  GroupId group{};                // send and recv: the ordered pair [source, destination]
  Elements input;                 // this rank's send buffer
  Elements output;                // this rank's receive buffer
  std::optional<GroupRank> root;  // broadcast and reduce: position in the group
  Bytes rounding;  // sizes are known to within this many bytes either way (printed logs); else 0
  TagId tag{};     // what moves, for people: "mlp.dense_4h_to_h"
  RuleId rule{};   // predicted calls: the rule that made it
  NameId name{};   // kind `other`, or the caller a log names
  friend auto operator<=>(const CommOp&, const CommOp&) = default;
};

/// Issue, start and completion; measured traces only.
struct Times {
  std::chrono::nanoseconds issued{};
  std::chrono::nanoseconds started{};
  std::chrono::nanoseconds finished{};
  friend auto operator<=>(const Times&, const Times&) = default;
};

constexpr std::int32_t k_no_micro_batch = -1;

/// One call of one rank (or of each rank of a class): which op of the trace's table, and when.
struct CommEvent {
  OpId op{};
  Iteration iteration = 0;
  std::int32_t micro_batch = k_no_micro_batch;
};

}  // namespace commlens
