#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "commlens/tune/rule_order.hpp"
#include "commlens/tune/rules.hpp"

namespace commlens::tune {
namespace {

/// A collective of coll/tuned: its number in rules files (coll_base_functions.h), and its algorithms, the
/// first of which is number 1 (coll_tuned_<op>_decision.c). Those after the ones of 4.1 came with 5.0.
struct Collective {
  CommKind kind;
  int number;
  std::array<std::string_view, 9> algorithms;
};
constexpr std::array<Collective, 7> k_collectives{
    {{CommKind::all_gather,
      0,
      {"linear", "bruck", "recursive_doubling", "ring", "neighbor", "two_proc", "sparbit",
       "direct-messaging"}},
     {CommKind::all_reduce,
      2,
      {"basic_linear", "nonoverlapping", "recursive_doubling", "ring", "segmented_ring", "rabenseifner",
       "allgather_reduce"}},
     {CommKind::all_to_all, 3, {"linear", "pairwise", "modified_bruck", "linear_sync", "two_proc"}},
     {CommKind::barrier, 6, {"linear", "double_ring", "recursive_doubling", "bruck", "two_proc", "tree"}},
     {CommKind::broadcast,
      7,
      {"basic_linear", "chain", "pipeline", "split_binary_tree", "binary_tree", "binomial", "knomial",
       "scatter_allgather", "scatter_allgather_ring"}},
     {CommKind::reduce,
      11,
      {"linear", "chain", "pipeline", "binary", "binomial", "in-order_binary", "rabenseifner"}},
     // The transport makes MPI_Reduce_scatter, which is 12; MPI_Reduce_scatter_block is 13.
     {CommKind::reduce_scatter, 12, {"non-overlapping", "recursive_halving", "ring", "butterfly"}}}};

/// An entry of a rule set: from `bytes` on, up to the next entry.
struct Entry {
  std::int64_t bytes = 0;
  int algorithm = 0;  // 0: Open MPI's decision
  int fan = 0;
};

const Collective* collective_of(CommKind kind) {
  const auto* const found = std::find_if(k_collectives.begin(), k_collectives.end(),
                                         [&](const Collective& one) { return one.kind == kind; });
  return found == k_collectives.end() ? nullptr : found;
}

/// The rule's entry. Fails where Open MPI has no such collective or algorithm.
Result<Entry> entry_of(const Rule& rule) {
  const Collective* const collective = collective_of(rule.kind);
  if (collective == nullptr) {
    return failure(fmt::format("Open MPI has no rules for {}", name_of(rule.kind)));
  }
  const auto& names = collective->algorithms;
  const auto* const found = std::find(names.begin(), names.end(), rule.algorithm);
  if (rule.algorithm.empty() || found == names.end()) {
    return failure(fmt::format("{}: Open MPI has no algorithm {} of it; an unknown one would end the job",
                               subject_of(rule), rule.algorithm));
  }
  // What coll_tuned_<op>_algorithm_chain_fanout is by default, and was while the algorithm was timed.
  constexpr int k_chain_fan = 4;
  return Entry{.bytes = rule.message.value,
               .algorithm = static_cast<int>(found - names.begin()) + 1,
               .fan = rule.algorithm == "chain" ? k_chain_fan : 0};
}

/// Entries of a set: the first one at 0 bytes, or Open MPI ignores the file; after each rule its own decision
/// again.
std::vector<Entry> filled(const std::vector<Entry>& rules) {
  std::vector<Entry> entries;
  if (rules.empty() || rules.front().bytes > 0) {
    entries.push_back({});
  }
  for (std::size_t at = 0; at < rules.size(); ++at) {
    entries.push_back(rules[at]);
    const bool is_followed = at + 1 < rules.size() && rules[at + 1].bytes == rules[at].bytes + 1;
    if (!is_followed) {
      entries.push_back({.bytes = rules[at].bytes + 1});
    }
  }
  return entries;
}

/// Sets of one collective by number of ranks. That of the nearest smaller number counts, and the first for
/// smaller ones, so that sets without rules stand before and after each that has some.
using Sets = std::map<std::int64_t, std::vector<Entry>>;

Sets surrounded(const Sets& rules) {
  Sets sets{{0, {}}, {2, {}}};
  for (const auto& [ranks, entries] : rules) {
    sets[ranks + 1];
  }
  for (const auto& [ranks, entries] : rules) {
    sets[ranks] = entries;
  }
  return sets;
}

std::string text_of_sets(const Collective& collective, const Sets& sets) {
  std::string text = fmt::format("{}  # {}\n{}  # numbers of ranks\n", collective.number,
                                 name_of(collective.kind), sets.size());
  for (const auto& [ranks, rules] : sets) {
    const std::vector<Entry> entries = filled(rules);
    text +=
        fmt::format("{}  # ranks\n{}  # rules: from bytes, algorithm, fan, segment\n", ranks, entries.size());
    for (const Entry& entry : entries) {
      text += fmt::format("{} {} {} 0\n", entry.bytes, entry.algorithm, entry.fan);
    }
  }
  return text;
}

}  // namespace

Result<std::string> open_mpi_rules(std::vector<Rule> rules, const RuleOrigin& origin) {
  std::map<int, Sets> found;  // by number of the collective, as files have them
  for (const Rule& rule : in_order(std::move(rules))) {
    const Result<Entry> entry = entry_of(rule);
    if (!entry) {
      return tl::unexpected(entry.error());
    }
    found[collective_of(rule.kind)->number][rule.ranks].push_back(*entry);
  }
  std::string text =
      comment_of(origin, "Rules of Open MPI") +
      "# mpirun --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename FILE\n" +
      fmt::format("{}  # collectives\n", found.size());
  for (const auto& [number, sets] : found) {
    const auto* const collective = std::find_if(k_collectives.begin(), k_collectives.end(),
                                                [&](const Collective& one) { return one.number == number; });
    text += text_of_sets(*collective, surrounded(sets));
  }
  return text;
}

}  // namespace commlens::tune
