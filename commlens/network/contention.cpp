#include "commlens/network/contention.hpp"

#include <algorithm>
#include <utility>

#include "commlens/base/check.hpp"

namespace commlens {

SharedLinks::SharedLinks(std::vector<double> bytes_per_second)
    : links_(std::move(bytes_per_second)), taken_(links_.capacities().size(), 0) {}

void SharedLinks::add(const ActiveTransfer& transfer) {
  double highest = 0;
  for (const StreamUse& use : transfer.uses) {
    COMMLENS_CHECK(use.link >= 0 && static_cast<std::size_t>(use.link) < taken_.size(),
                   "transfers use links of the network");
    COMMLENS_CHECK(use.bytes_per_second >= 0 && use.streams >= 0, "streams have a rate");
    taken_[static_cast<std::size_t>(use.link)] += use.bytes_per_second * use.streams;
    highest = std::max(highest, use.bytes_per_second);
  }
  uses_.clear();
  for (const StreamUse& use : transfer.uses) {
    double& taken = taken_[static_cast<std::size_t>(use.link)];
    if (taken > 0) {
      const double capacity = links_.capacities()[static_cast<std::size_t>(use.link)];
      uses_.push_back({.link = use.link, .amount = std::min(taken, capacity)});
      taken = 0;
    }
  }
  links_.add(uses_, highest > 0 ? 1 / highest : 1, 1);
}

std::span<const double> SharedLinks::speeds(std::span<const ActiveTransfer* const> transfers) {
  links_.clear();
  for (const ActiveTransfer* const transfer : transfers) {
    add(*transfer);
  }
  return links_.solve();
}

std::span<const double> SharedLinks::speeds(std::span<const ActiveTransfer> transfers) {
  links_.clear();
  for (const ActiveTransfer& transfer : transfers) {
    add(transfer);
  }
  return links_.solve();
}

}  // namespace commlens
