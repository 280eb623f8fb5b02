#include "commlens/simulate/timeline/link_classes.hpp"

#include <algorithm>
#include <bit>
#include <unordered_set>

namespace commlens {

std::uint64_t scattered(std::uint64_t bits) {
  bits += 0x9E3779B97F4A7C15;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return bits ^ (bits >> 31);
}

LinkClasses::LinkClasses(const Topology& topology) : topology_(topology) {
  for (const double capacity : topology.capacities()) {
    colours_.push_back(scattered(std::bit_cast<std::uint64_t>(capacity)));
    is_free_.push_back(topology.carries_all(static_cast<LinkId>(is_free_.size())));
  }
  for (std::size_t link = 0; link < colours_.size(); ++link) {
    is_taken_.push_back(false);
    colours_[link] += is_between_nodes(topology.link(static_cast<LinkId>(link)).kind) ? 1 : 0;
  }
}

std::size_t LinkClasses::add(std::span<const Hop> hops) {
  for (const LinkStream& use : hops_transfer(topology_, hops, 1).uses) {
    const auto link = static_cast<std::size_t>(use.link);
    if (!is_free_[link]) {
      if (!is_taken_[link]) {
        is_taken_[link] = true;
        taken_.push_back(use.link);
      }
      loads_.push_back({use.link, static_cast<std::uint32_t>(use.streams)});
    }
  }
  first_.push_back(loads_.size());
  return rows() - 1;
}

std::span<const LinkClasses::Load> LinkClasses::loads(std::size_t row) const {
  return {loads_.begin() + static_cast<std::ptrdiff_t>(first_[row]), first_[row + 1] - first_[row]};
}

std::uint64_t LinkClasses::seen_by(std::size_t row) const {
  std::uint64_t seen = 0;
  for (const Load& load : loads(row)) {
    seen += scattered(colours_[static_cast<std::size_t>(load.link)] + scattered(load.streams));
  }
  return seen;
}

void LinkClasses::refine(std::span<const std::uint64_t> colours_of_rows) {
  for (std::uint64_t& colour : colours_) {
    colour = scattered(colour);
  }
  for (std::size_t row = 0; row < rows(); ++row) {
    for (const Load& load : loads(row)) {
      colours_[static_cast<std::size_t>(load.link)] +=
          scattered(colours_of_rows[row] + scattered(load.streams));
    }
  }
}

std::size_t LinkClasses::count() const {
  std::unordered_set<std::uint64_t> seen;
  for (const LinkId link : taken_) {
    seen.insert(colours_[static_cast<std::size_t>(link)]);
  }
  return seen.size();
}

std::vector<bool> LinkClasses::first_of_each() const {
  std::unordered_set<std::uint64_t> seen;
  std::vector<bool> first(colours_.size(), false);
  std::vector<LinkId> links = taken_;
  std::ranges::sort(links);
  for (const LinkId link : links) {
    first[static_cast<std::size_t>(link)] = seen.insert(colours_[static_cast<std::size_t>(link)]).second;
  }
  return first;
}

}  // namespace commlens
