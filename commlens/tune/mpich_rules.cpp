#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commlens/base/check.hpp"
#include "commlens/tune/mpich_defaults.hpp"
#include "commlens/tune/rule_order.hpp"
#include "commlens/tune/rules.hpp"

namespace commlens::tune {
namespace {

using Nodes = std::vector<SelectionNode>;

/// How a collective's rules are written.
struct MpichCollective {
  std::string_view name;
  std::string_view function;  // in the names of its algorithms
  std::string_view size;      // the condition on its message
  std::vector<std::string_view> algorithms;
};

/// Null: MPICH has no rules for the kind. The transport makes MPI_Reduce_scatter_block.
const MpichCollective* mpich_collective(CommKind kind) {
  static const std::map<CommKind, MpichCollective> collectives{
      {CommKind::all_reduce,
       {"allreduce", "Allreduce", "avg_msg_size", {"recursive_doubling", "reduce_scatter_allgather"}}},
      {CommKind::all_gather,
       {"allgather", "Allgather", "total_msg_size", {"brucks", "recursive_doubling", "ring"}}},
      {CommKind::reduce_scatter,
       {"reduce_scatter_block",
        "Reduce_scatter_block",
        "total_msg_size",
        {"recursive_doubling", "pairwise", "recursive_halving"}}},
      {CommKind::all_to_all, {"alltoall", "Alltoall", "avg_msg_size", {"brucks", "pairwise", "scattered"}}},
      {CommKind::broadcast,
       {"bcast",
        "Bcast",
        "avg_msg_size",
        {"binomial", "scatter_recursive_doubling_allgather", "scatter_ring_allgather"}}},
      {CommKind::reduce, {"reduce", "Reduce", "avg_msg_size", {"binomial", "reduce_scatter_gather"}}}};
  const auto found = collectives.find(kind);
  return found == collectives.end() ? nullptr : &found->second;
}

/// What MPICH compares: the whole message, but of an alltoall the part for one rank.
std::int64_t compared_bytes(const Rule& rule) {
  return rule.kind == CommKind::all_to_all ? rule.message.value / rule.ranks : rule.message.value;
}

Result<void> check_mpich_rule(const Rule& rule) {
  const MpichCollective* const collective = mpich_collective(rule.kind);
  if (collective == nullptr) {
    return failure(fmt::format("commlens writes no MPICH rules for {}", name_of(rule.kind)));
  }
  const auto& names = collective->algorithms;
  if (std::find(names.begin(), names.end(), rule.algorithm) == names.end()) {
    return failure(fmt::format("{}: MPICH has no algorithm {} of it; an unknown one would end the job",
                               subject_of(rule), rule.algorithm));
  }
  if (rule.message.value < 1 || rule.message.value >= INT32_MAX) {
    return failure(fmt::format("{}: MPICH's file has sizes from 1 to 2^31 - 2 bytes", subject_of(rule)));
  }
  return {};
}

/// The rule's algorithm for calls that can use it, and `otherwise` for those that cannot (MPICH checks
/// nothing: it would give a wrong sum, or end the job).
Nodes guarded(const Rule& rule, const Nodes& otherwise) {
  const MpichCollective& collective = *mpich_collective(rule.kind);
  const Nodes chosen{{fmt::format("algorithm=MPIR_{}_intra_{}", collective.function, rule.algorithm), {}}};
  if (rule.algorithm == "reduce_scatter_allgather" || rule.algorithm == "reduce_scatter_gather") {
    return {{"is_op_built_in=no", otherwise},
            {"is_op_built_in=yes", {{"count<pow2", otherwise}, {"count=any", chosen}}}};
  }
  if (rule.kind == CommKind::reduce_scatter && rule.algorithm != "recursive_doubling") {
    return {{"is_commutative=yes", chosen}, {"is_commutative=no", otherwise}};
  }
  if (rule.kind == CommKind::all_to_all) {
    return {{"is_sendbuf_inplace=yes", otherwise}, {"is_sendbuf_inplace=no", chosen}};
  }
  return chosen;
}

/// `values` ascending: each takes its nodes, all between and around them `otherwise`.
Nodes ranges(std::string_view quantity, const std::map<std::int64_t, Nodes>& values, const Nodes& otherwise) {
  Nodes nodes;
  std::int64_t covered = -1;
  for (const auto& [value, chosen] : values) {
    if (value - 1 > covered) {
      nodes.push_back({fmt::format("{}<={}", quantity, value - 1), otherwise});
    }
    nodes.push_back({fmt::format("{}<={}", quantity, value), chosen});
    covered = value;
  }
  nodes.push_back({fmt::format("{}=any", quantity), otherwise});
  return nodes;
}

/// The nodes of a collective on the ranks of one group, with its rules.
Nodes with_rules(const std::vector<Rule>& rules, const Nodes& defaults) {
  std::map<std::int64_t, std::map<std::int64_t, Nodes>> by_size;  // by ranks
  for (const Rule& rule : rules) {
    by_size[rule.ranks][compared_bytes(rule)] = guarded(rule, defaults);
  }
  std::map<std::int64_t, Nodes> by_ranks;
  for (const auto& [ranks, sizes] : by_size) {
    by_ranks[ranks] = ranges(mpich_collective(rules.front().kind)->size, sizes, defaults);
  }
  return ranges("comm_size", by_ranks, defaults);
}

nlohmann::ordered_json json_of(const Nodes& nodes) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const SelectionNode& node : nodes) {
    object[node.condition] = json_of(node.children);
  }
  return object;
}

}  // namespace

Result<std::string> mpich_rules(std::vector<Rule> rules) {
  std::map<std::string, std::vector<Rule>> by_collective;
  for (const Rule& rule : in_order(std::move(rules))) {
    if (const Result<void> fits = check_mpich_rule(rule); !fits) {
      return tl::unexpected(fits.error());
    }
    by_collective[fmt::format("collective={}", mpich_collective(rule.kind)->name)].push_back(rule);
  }
  Nodes tree = mpich_defaults();
  for (const auto& [collective, own] : by_collective) {
    const auto node = std::find_if(tree.begin(), tree.end(),
                                   [&](const SelectionNode& one) { return one.condition == collective; });
    COMMLENS_CHECK(node != tree.end() && node->children.front().condition == "comm_type=intra",
                   "collectives with rules differ by the kind of communicator");
    Nodes& intra = node->children.front().children;
    intra = with_rules(own, Nodes(intra));
  }
  const std::string text = json_of(tree).dump(1) + "\n";
  // MPICH maps the file into memory and reads it up to a zero byte, which a file of whole pages does not
  // have.
  constexpr std::size_t k_page = 4096;
  return text.size() % k_page == 0 ? text + "\n" : text;
}

bool mpich_rules_fit(const std::string& version) {
  const std::size_t number = version.find_first_of("0123456789");
  return version.find("MPICH") != std::string::npos && number != std::string::npos &&
         version.compare(number, 4, "4.0.") == 0;
}

}  // namespace commlens::tune
