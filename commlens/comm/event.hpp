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

/// How a reducing call combines the values of its ranks; `unknown` where a source does not report it, and of
/// calls that combine nothing.
enum class Reduction : std::uint8_t {
  unknown,
  sum,
  avg,
  premul_sum,  // NCCL: the sum of values that were multiplied before
  max,
  min,
  product,
  band,
  bor,
  bxor,
  land,
  lor,
  lxor,
  maxloc,
  minloc,
  other,  // one that the program defined, or that has no name here
};
std::string_view name_of(Reduction reduction);
std::optional<Reduction> reduction_from(std::string_view name);
/// The reduction of an ncclRedOp_t; those above ncclAvg are made by ncclRedOpCreatePreMulSum (nccl.h 2.4 to
/// 2.29).
Reduction nccl_reduction(std::int64_t number);
constexpr bool is_reducing(CommKind kind) {
  return kind == CommKind::all_reduce || kind == CommKind::reduce || kind == CommKind::reduce_scatter;
}

/// The algorithm and protocol that a library chose for a call, of those that NCCL has
/// (NCCL_ALGO_* and NCCL_PROTO_* of src/include/nccl_common.h, in its order after `unknown`).
enum class Algorithm : std::uint8_t {
  unknown,
  tree,
  ring,
  collnet_direct,
  collnet_chain,
  nvls,
  nvls_tree,
  pat
};
enum class Protocol : std::uint8_t { unknown, ll, ll128, simple };
std::string_view name_of(Algorithm algorithm);
std::string_view name_of(Protocol protocol);
/// By name, in any case ("RING", "ring"); std::nullopt if there is none.
std::optional<Algorithm> algorithm_from(std::string_view name);
std::optional<Protocol> protocol_from(std::string_view name);

/// What a comparison may ask of a call.
enum class Match : std::uint8_t {
  exact,
  count,   // sizes depend on data (routing of tokens, pickled objects): only the number of calls is exact
  random,  // random numbers decide how often the call is made: it is not compared
};
std::string_view name_of(Match match);
std::optional<Match> match_from(std::string_view name);

/// Rows of the tables in trace/trace.hpp. 0 is the empty entry of each table of strings.
enum class GroupId : std::uint32_t {};
enum class TagId : std::uint32_t {};
enum class RuleId : std::uint32_t {};
enum class NameId : std::uint32_t {};
enum class OpId : std::uint32_t {};

/// A requested call, and what is known of how it is carried out; independent of its time. The fields from
/// `reduction` to `blocking`, `tag`, `rule`, `name`, `site` and `note` describe it; comparisons ignore them.
/// The meaning of `input` and `output` for each kind is fixed in comm/volume.hpp.
struct CommOp {
  CommKind kind = CommKind::other;
  DType dtype = DType::uint8;
  Phase phase = Phase::other;
  Match match = Match::exact;
  Reduction reduction = Reduction::unknown;
  Algorithm algorithm = Algorithm::unknown;
  Protocol protocol = Protocol::unknown;
  std::optional<bool> blocking;   // whether the call returns only when this rank's part is complete
  GroupId group{};                // send and recv: the ordered pair [source, destination]
  Elements input;                 // this rank's send buffer
  Elements output;                // this rank's receive buffer
  std::optional<GroupRank> root;  // broadcast and reduce: position in the group
  Bytes rounding;  // sizes are known to within this many bytes either way (printed logs); else 0
  TagId tag{};     // what moves, for people: "mlp.dense_4h_to_h"
  RuleId rule{};   // predicted calls: the rule that made it
  NameId name{};   // the function as the source names it: "MPI_Scan"
  NameId site{};   // where it was called: "engine.py:1077"
  NameId note{};   // what the record lacks, or how it was measured: "enqueued only"
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
