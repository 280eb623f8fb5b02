#include "commlens/network/contention.hpp"

#include <algorithm>
#include <utility>

#include "commlens/base/check.hpp"

namespace commlens {

std::span<const LinkUse> TransferLoads::of(const ActiveTransfer& transfer,
                                           std::span<const double> capacities) {
  for (const LinkStream& use : transfer.uses) {
    COMMLENS_CHECK(use.link >= 0 && static_cast<std::size_t>(use.link) < taken_.size(),
                   "transfers use links of the network");
    COMMLENS_CHECK(use.bytes_per_second >= 0 && use.streams >= 0, "streams have a rate");
    taken_[static_cast<std::size_t>(use.link)] += use.bytes_per_second * use.streams;
  }
  uses_.clear();
  for (const LinkStream& use : transfer.uses) {
    double& taken = taken_[static_cast<std::size_t>(use.link)];
    if (taken > 0) {
      uses_.push_back(
          {.link = use.link, .amount = std::min(taken, capacities[static_cast<std::size_t>(use.link)])});
      taken = 0;
    }
  }
  return uses_;
}

double TransferLoads::weight(const ActiveTransfer& transfer) {
  double highest = 0;
  for (const LinkStream& use : transfer.uses) {
    highest = std::max(highest, use.bytes_per_second);
  }
  return highest > 0 ? 1 / highest : 1;
}

SharedLinks::SharedLinks(std::vector<double> bytes_per_second)
    : links_(std::move(bytes_per_second)), loads_(links_.capacities().size()) {}

std::span<const double> SharedLinks::speeds(std::span<const ActiveTransfer* const> transfers) {
  links_.clear();
  for (const ActiveTransfer* const transfer : transfers) {
    links_.add(loads_.of(*transfer, links_.capacities()), TransferLoads::weight(*transfer), 1);
  }
  return links_.solve();
}

std::span<const double> SharedLinks::speeds(std::span<const ActiveTransfer> transfers) {
  links_.clear();
  for (const ActiveTransfer& transfer : transfers) {
    links_.add(loads_.of(transfer, links_.capacities()), TransferLoads::weight(transfer), 1);
  }
  return links_.solve();
}

}  // namespace commlens
