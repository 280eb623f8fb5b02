#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "commlens/network/topology.hpp"
#include "commlens/network/transfers.hpp"

namespace commlens {

/// Links of a job that are alike: as wide, and taken by calls that are alike. Together with the classes of
/// ranks they are refined until nothing changes (an equitable partition): then max-min speeds, worked out
/// with one link for all that are alike, are those of all links.
///
/// Colours are sums of hashes of 64 bits, so that the order of links does not count.
class LinkClasses {
 public:
  /// What the messages of one group take of a link.
  struct Load {
    LinkId link = 0;
    std::uint32_t streams = 0;
  };

  /// The topology outlives it.
  explicit LinkClasses(const Topology& topology);

  /// Adds what a group's messages take; its row, from 0. Links that slow nobody down are left out.
  std::size_t add(std::span<const Hop> hops);
  std::size_t rows() const { return first_.size() - 1; }
  std::span<const Load> loads(std::size_t row) const;

  /// The colours of the links that a row takes.
  std::uint64_t seen_by(std::size_t row) const;
  /// New colours of links, by those of the rows that take them.
  void refine(std::span<const std::uint64_t> colours_of_rows);
  /// How many colours there are of links that somebody takes.
  std::size_t count() const;

  /// By link: whether it is the first of its colour that somebody takes.
  std::vector<bool> first_of_each() const;

 private:
  const Topology& topology_;
  std::vector<std::uint64_t> colours_;  // by link
  std::vector<bool> is_free_;           // of links that slow nobody down
  std::vector<bool> is_taken_;          // by link: some row takes it
  std::vector<LinkId> taken_;           // links that some row takes
  std::vector<std::size_t> first_ = {0};
  std::vector<Load> loads_;
};

/// Spreads the bits of a number over all 64 (splitmix64).
std::uint64_t scattered(std::uint64_t bits);

}  // namespace commlens
