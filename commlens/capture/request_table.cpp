#include "commlens/capture/request_table.hpp"

namespace commlens::capture {
namespace {

constexpr int k_first_bits = 10;

}  // namespace

RequestTable::RequestTable() : chains_(std::size_t{1} << k_first_bits), shift_(64 - k_first_bits) {}

RequestTable::Chain& RequestTable::chain_of(std::uint64_t key) noexcept {
  return chains_[(key * 0x9e3779b97f4a7c15U) >> shift_];
}

void RequestTable::append(std::uint32_t node) noexcept {
  Chain& chain = chain_of(nodes_[node].call.key);
  nodes_[node].next = k_none;
  (chain.first == k_none ? chain.first : nodes_[chain.last].next) = node;
  chain.last = node;
}

/// Chains keep their order: each new one takes its nodes from one old one.
void RequestTable::grow() {
  std::vector<Chain> old(chains_.size() * 2);
  old.swap(chains_);
  --shift_;
  for (const Chain& chain : old) {
    for (std::uint32_t node = chain.first; node != k_none;) {
      const std::uint32_t next = nodes_[node].next;
      append(node);
      node = next;
    }
  }
}

bool RequestTable::add(const PendingCall& call) {
  if (count_ == k_most) {
    return false;
  }
  if (count_ == chains_.size()) {
    grow();
  }
  if (free_ == k_none) {
    nodes_.emplace_back();
    free_ = static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  const std::uint32_t node = free_;
  free_ = nodes_[node].next;
  nodes_[node].call = call;
  append(node);
  ++count_;
  return true;
}

PendingCall* RequestTable::find(std::uint64_t key) noexcept {
  for (std::uint32_t node = chain_of(key).first; node != k_none; node = nodes_[node].next) {
    if (nodes_[node].call.key == key) {
      return &nodes_[node].call;
    }
  }
  return nullptr;
}

void RequestTable::remove(std::uint64_t key) noexcept {
  Chain& chain = chain_of(key);
  std::uint32_t before = k_none;
  for (std::uint32_t node = chain.first; node != k_none; node = nodes_[node].next) {
    if (nodes_[node].call.key != key) {
      before = node;
      continue;
    }
    (before == k_none ? chain.first : nodes_[before].next) = nodes_[node].next;
    if (chain.last == node) {
      chain.last = before;
    }
    nodes_[node].next = free_;
    free_ = node;
    --count_;
    return;
  }
}

}  // namespace commlens::capture
