#include "commlens/simulate/ring.hpp"

#include <algorithm>

namespace commlens {
namespace {

// Of a collective inside a domain, however small: small sizes of docs/results/calibrate.md.
constexpr double k_fixed_seconds = 15e-6;

double link_of(const RunHardware& hardware, const Coefficients& with, std::int64_t ranks) {
  const double link = ranks == 2 && hardware.pair_link > 0 ? hardware.pair_link : hardware.link;
  return link * with[Coefficient::link_share];
}

double network_of(const RunHardware& hardware, const Coefficients& with) {
  return hardware.network * with[Coefficient::network_share];
}

}  // namespace

RingGroup ring_group(const RunHardware& hardware, std::int64_t ranks, std::int64_t stride) {
  return {ranks, std::clamp<std::int64_t>(hardware.domain / std::max<std::int64_t>(stride, 1), 1, ranks)};
}

double ring_seconds(const RunHardware& hardware, const Coefficients& with, RingGroup group, double bytes) {
  if (group.ranks <= 1 || bytes <= 0) {
    return 0;
  }
  const double link = link_of(hardware, with, group.ranks);
  const double moved = bytes * static_cast<double>(group.ranks - 1) / static_cast<double>(group.ranks);
  if (group.in_domain >= group.ranks) {
    return moved / link + k_fixed_seconds;
  }
  const double network = network_of(hardware, with) * static_cast<double>(group.in_domain);
  const double domains = static_cast<double>(group.ranks) / static_cast<double>(group.in_domain);
  const double inside = group.in_domain > 1 ? link : network;
  return moved / std::min(inside, network) + with[Coefficient::hop] * 1e-6 * (domains - 1);
}

double exchange_seconds(const RunHardware& hardware, const Coefficients& with, RingGroup group,
                        double bytes) {
  if (group.ranks <= 1 || bytes <= 0) {
    return 0;
  }
  const double ranks = static_cast<double>(group.ranks);
  const double inside = static_cast<double>(group.in_domain - 1) / ranks;
  const double outside = static_cast<double>(group.ranks - group.in_domain) / ranks;
  return with[Coefficient::exchange] *
         (k_fixed_seconds +
          bytes * (inside / link_of(hardware, with, group.ranks) + outside / network_of(hardware, with)));
}

double message_seconds(const RunHardware& hardware, const Coefficients& with, bool in_domain, double bytes) {
  return k_fixed_seconds + bytes / (in_domain ? link_of(hardware, with, 0) : network_of(hardware, with));
}

}  // namespace commlens
