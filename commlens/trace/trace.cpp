#include "commlens/trace/trace.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "commlens/base/check.hpp"
#include "commlens/base/sums.hpp"

namespace commlens {
namespace {

constexpr std::array<std::string_view, 5> k_source_names = {"predicted", "recorded", "imported", "simulated",
                                                            "replayed"};
constexpr std::array<std::string_view, 2> k_accounting_names = {"messages", "deepspeed_logger"};

/// One round of a multiplicative mix (the constant is that of splitmix64).
std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0xbf58476d1ce4e5b9ULL;
  return hash ^ (hash >> 29);
}

std::uint64_t hash_of(const CommOp& op) {
  const auto bits = [](auto value) { return static_cast<std::uint64_t>(value); };
  std::uint64_t hash =
      mixed(0x9e3779b97f4a7c15ULL, bits(op.kind) | bits(op.dtype) << 8 | bits(op.phase) << 16 |
                                       bits(op.match) << 24 | bits(op.group) << 32);
  hash = mixed(hash, bits(op.reduction) | bits(op.algorithm) << 8 | bits(op.protocol) << 16 |
                         bits(op.blocking ? 1 + int{*op.blocking} : 0) << 24 | bits(op.site) << 32);
  hash = mixed(hash, bits(op.input.value));
  hash = mixed(hash, bits(op.output.value));
  hash = mixed(hash, op.root ? bits(op.root->value) + 1 : 0);
  hash = mixed(hash, bits(op.rounding.value));
  hash = mixed(hash, bits(op.tag) | bits(op.rule) << 32);
  hash = mixed(hash, bits(op.name) | bits(op.note) << 32);
  return hash ^ (hash >> 32);
}

}  // namespace

std::string_view name_of(Source source) { return k_source_names.at(static_cast<std::size_t>(source)); }

std::string_view name_of(Accounting accounting) {
  return k_accounting_names.at(static_cast<std::size_t>(accounting));
}

std::optional<Source> source_from(std::string_view name) {
  const auto* const found = std::find(k_source_names.begin(), k_source_names.end(), name);
  if (found == k_source_names.end()) {
    return std::nullopt;
  }
  return static_cast<Source>(found - k_source_names.begin());
}

std::optional<Accounting> accounting_from(std::string_view name) {
  const auto* const found = std::find(k_accounting_names.begin(), k_accounting_names.end(), name);
  if (found == k_accounting_names.end()) {
    return std::nullopt;
  }
  return static_cast<Accounting>(found - k_accounting_names.begin());
}

OpId Trace::intern(const CommOp& op) {
  if (ops_.size() * 2 >= op_slots_.size()) {
    grow_slots();
  }
  const std::size_t mask = op_slots_.size() - 1;
  std::size_t at = hash_of(op) & mask;
  while (op_slots_[at] != 0) {
    if (ops_[op_slots_[at] - 1] == op) {
      return OpId{op_slots_[at] - 1};
    }
    at = (at + 1) & mask;
  }
  COMMLENS_CHECK(ops_.size() < UINT32_MAX, "ids of ops have 32 bits");
  ops_.push_back(op);
  op_slots_[at] = static_cast<std::uint32_t>(ops_.size());
  return OpId{op_slots_[at] - 1};
}

void Trace::grow_slots() {
  constexpr std::size_t smallest = 64;
  op_slots_.assign(std::max(smallest, op_slots_.size() * 2), 0);
  const std::size_t mask = op_slots_.size() - 1;
  for (std::size_t row = 0; row < ops_.size(); ++row) {
    std::size_t at = hash_of(ops_[row]) & mask;
    while (op_slots_[at] != 0) {
      at = (at + 1) & mask;
    }
    op_slots_[at] = static_cast<std::uint32_t>(row + 1);
  }
}

RuleId Trace::intern(const Rule& rule) {
  if (rule == rules_.front()) {
    return RuleId{0};
  }
  const std::string key = rule.name + '\n' + rule.source + (rule.verified ? "\n1" : "\n0");
  const auto [found, added] = rule_ids_.try_emplace(key, RuleId{static_cast<std::uint32_t>(rules_.size())});
  if (added) {
    rules_.push_back(rule);
  }
  return found->second;
}

void Provenance::skip(const std::string& reason, std::int64_t records) {
  std::int64_t& count = skipped[reason];
  count = saturating_sum(count, records);
}

void Provenance::assume(const std::string& reason, std::int64_t records) {
  std::int64_t& count = assumed[reason];
  count = saturating_sum(count, records);
}

std::int64_t Trace::ranks() const {
  std::int64_t ranks = 0;
  for (const RankStream& stream : streams) {
    ranks = std::max(ranks, stream.ranks.last.value + 1);
  }
  return ranks;
}

std::int64_t Trace::job_ranks() const { return std::max(provenance.job_ranks, ranks()); }

const RankStream* Trace::stream_of(Rank rank) const {
  const auto after =
      std::upper_bound(streams.begin(), streams.end(), rank,
                       [](Rank value, const RankStream& stream) { return value < stream.ranks.first; });
  if (after != streams.begin() && std::prev(after)->ranks.contains(rank)) {
    return &*std::prev(after);
  }
  const auto found = std::find_if(streams.begin(), streams.end(),
                                  [&](const RankStream& stream) { return stream.ranks.contains(rank); });
  return found == streams.end() ? nullptr : &*found;
}

std::vector<Iteration> Trace::iterations() const {
  std::set<Iteration> found;
  for (const RankStream& stream : streams) {
    Iteration previous = k_unknown_iteration;
    for (const CommEvent& event : stream.events) {
      if (event.iteration != previous) {
        previous = event.iteration;
        found.insert(previous);
      }
    }
  }
  found.erase(k_unknown_iteration);
  return {found.begin(), found.end()};
}

}  // namespace commlens
