#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "commlens/network/max_min.hpp"

namespace commlens {

/// Equal streams of a transfer over one link.
struct LinkStream {
  LinkId link = 0;
  double bytes_per_second = 0;  // of one stream while the transfer is alone
  double streams = 1;           // of the transfer over this link at once
};

/// A call or a message that is under way. While it is alone it takes what it takes (its uncontended
/// duration), and its streams run at the rates here. All its streams slow down together, by the one that
/// slows down most: a ring is as fast as its slowest hop.
struct ActiveTransfer {
  std::vector<LinkStream> uses;  // a link may stand several times
};

/// What a transfer takes of each link at full speed, at most all of it; as a user of MaxMin whose level is
/// its speed.
class TransferLoads {
 public:
  /// Of a network with so many links.
  explicit TransferLoads(std::size_t links) : taken_(links, 0) {}

  /// Each link once. Valid until the next call.
  std::span<const LinkUse> of(const ActiveTransfer& transfer, std::span<const double> capacities);

  /// 1 / (rate of its fastest stream), so that streams on a full link have equal rates.
  static double weight(const ActiveTransfer& transfer);

 private:
  std::vector<LinkUse> uses_;
  std::vector<double> taken_;  // bytes per second that the transfer takes of each link; 0 between calls
};

/// How much transfers slow each other down.
///
/// The speed s_i of transfer i, from above 0 to 1, multiplies all its rates. Among all speeds with, on each
/// link, sum of s_i × bytes_per_second × streams <= capacity, those are chosen in which streams that share a
/// full link have equal rates (as far as their transfer does not wait elsewhere): max-min fair with weight 1
/// / (the highest rate of one of its streams), and s_i <= 1. Hence
///   - alone, or on links that nobody fills: 1;
///   - two transfers that each fill a link with one stream: 1/2 each; with three streams against one: 3/4 and
///   1/4;
///   - a transfer that needs less than its fair part keeps 1, and the others share what it leaves.
/// A transfer that by itself needs more of a link than there is counts as filling it: what it loses by that
/// is in its uncontended duration already.
class SharedLinks {
 public:
  /// Bytes per second of the links 0, 1, … (Topology::capacities()).
  explicit SharedLinks(std::vector<double> bytes_per_second);

  /// The speed of each transfer, in their order. Costs O(uses × log uses), whatever the number of links of
  /// the network. The result is valid until the next call.
  std::span<const double> speeds(std::span<const ActiveTransfer* const> transfers);
  std::span<const double> speeds(std::span<const ActiveTransfer> transfers);

 private:
  MaxMin links_;
  TransferLoads loads_;
};

}  // namespace commlens
