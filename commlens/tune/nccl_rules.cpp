#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/tune/rule_order.hpp"
#include "commlens/tune/rules.hpp"

namespace commlens::tune {
namespace {

/// The op's name in files of the plug-in, which takes an unknown one for allreduce; empty: it has none.
std::string_view tuner_name(CommKind kind) {
  switch (kind) {
    case CommKind::all_reduce:
      return "allreduce";
    case CommKind::all_gather:
      return "allgather";
    case CommKind::reduce_scatter:
      return "reducescatter";
    case CommKind::broadcast:
      return "broadcast";
    case CommKind::reduce:
      return "reduce";
    case CommKind::all_to_all:
    case CommKind::send:
    case CommKind::recv:
    case CommKind::barrier:
    case CommKind::other:
      break;
  }
  return "";
}

/// "tree" and "simple" of "tree/simple". Fails where the plug-in knows one of them not: it would take
/// another.
Result<std::pair<std::string, std::string>> parts_of(const Rule& rule) {
  const std::size_t slash = rule.algorithm.find('/');
  const std::string algorithm = rule.algorithm.substr(0, slash);
  const std::string protocol = slash == std::string::npos ? "" : rule.algorithm.substr(slash + 1);
  static const std::set<std::string> algorithms{
      "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
  static const std::set<std::string> protocols{"ll", "ll128", "simple"};
  if (algorithms.count(algorithm) == 0 || protocols.count(protocol) == 0) {
    return failure(
        fmt::format("{}: NCCL has no algorithm and protocol {}", subject_of(rule), rule.algorithm));
  }
  return std::pair{algorithm, protocol};
}

}  // namespace

Result<std::string> nccl_tuner_rules(std::vector<Rule> rules, const RuleOrigin& origin) {
  std::string text =
      comment_of(origin, "Rules of NCCL's example tuner plug-in") +
      "# NCCL_TUNER_PLUGIN=libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE=FILE\n"
      "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks: -1 is NCCL's own, or any\n";
  for (const Rule& rule : in_order(std::move(rules))) {
    const std::string_view name = tuner_name(rule.kind);
    if (name.empty()) {
      return failure(fmt::format("NCCL's tuner has no rules for {}", name_of(rule.kind)));
    }
    const auto parts = parts_of(rule);
    if (!parts) {
      return tl::unexpected(parts.error());
    }
    text += fmt::format("{},{},{},{},{},-1,-1,{}\n", name, rule.message.value, rule.message.value,
                        parts->first, parts->second, rule.ranks);
  }
  return text;
}

std::string nccl_algorithms(const std::vector<Rule>& rules, const std::vector<Rule>& others) {
  std::map<std::string_view, std::set<std::string>> chosen;  // by op
  for (const Rule& rule : rules) {
    chosen[tuner_name(rule.kind)].insert(rule.algorithm.substr(0, rule.algorithm.find('/')));
  }
  for (const Rule& other : others) {
    chosen.erase(tuner_name(other.kind));
  }
  std::vector<std::string> entries;
  for (const auto& [name, algorithms] : chosen) {
    if (!name.empty() && algorithms.size() == 1) {
      entries.push_back(fmt::format("{}:{}", name, *algorithms.begin()));
    }
  }
  return fmt::format("{}", fmt::join(entries, ";"));
}

}  // namespace commlens::tune
