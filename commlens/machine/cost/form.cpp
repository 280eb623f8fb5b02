#include "commlens/machine/cost/form.hpp"

#include <cmath>
#include <set>

#include "commlens/base/check.hpp"
#include "commlens/machine/cost/point_to_point.hpp"

namespace commlens {
namespace {

/// A curve through sizes: log us at each, and the form's there.
struct Curve {
  std::vector<std::int64_t> bytes;
  std::vector<double> log_us;
  std::vector<double> log_form;
};

TimedCall at(TimedCall call, std::int64_t bytes, const Knots& knots) {
  call.bytes = Bytes{bytes};
  call.place = {knots.ranks, knots.nodes};
  return call;
}

double log_form(const PairFit& fit, const TimedCall& call) {
  return std::log(std::max(form_us(fit, call), 1e-9));
}

Curve curve_of(const PairFit& fit, const Knots& knots, const TimedCall& call) {
  Curve curve{knots.bytes, {}, {}};
  for (std::size_t index = 0; index < knots.bytes.size(); ++index) {
    curve.log_us.push_back(std::log(knots.us[index]));
    curve.log_form.push_back(log_form(fit, at(call, knots.bytes[index], knots)));
  }
  return curve;
}

/// log us at a size, whose form is `form`: between two sizes in proportion to the form, which keeps it from
/// falling; beyond them off by as much as at the last.
double along(const Curve& curve, std::int64_t bytes, double form) {
  const auto after = static_cast<std::size_t>(
      std::lower_bound(curve.bytes.begin(), curve.bytes.end(), bytes) - curve.bytes.begin());
  if (after == curve.bytes.size()) {
    return curve.log_us.back() + form - curve.log_form.back();
  }
  if (after == 0) {
    return curve.log_us.front() + form - curve.log_form.front();
  }
  const double rise = curve.log_form[after] - curve.log_form[after - 1];
  if (rise < 1e-9) {
    return bytes == curve.bytes[after] ? curve.log_us[after] : curve.log_us[after - 1];
  }
  const double share = (form - curve.log_form[after - 1]) / rise;
  return curve.log_us[after - 1] + (curve.log_us[after] - curve.log_us[after - 1]) * share;
}

double along_knots(const PairFit& fit, const Knots& knots, const TimedCall& call) {
  return along(curve_of(fit, knots, call), call.bytes.value,
               log_form(fit, at(call, call.bytes.value, knots)));
}

/// For ranks that were not measured inside a node: the form, off by the mean of what the measured ones are.
double by_mean(const PairFit& fit, const TimedCall& call) {
  std::set<std::int64_t> sizes;
  for (const Knots& knots : fit.knots) {
    sizes.insert(knots.bytes.begin(), knots.bytes.end());
  }
  Curve curve;
  for (const std::int64_t bytes : sizes) {
    double off = 0;
    double known = 0;
    for (const Knots& knots : fit.knots) {
      if (bytes >= knots.bytes.front() && bytes <= knots.bytes.back()) {
        const TimedCall there = at(call, bytes, knots);
        off += along_knots(fit, knots, there) - log_form(fit, there);
        known += 1;
      }
    }
    TimedCall here = call;
    here.bytes = Bytes{bytes};
    curve.bytes.push_back(bytes);
    curve.log_form.push_back(log_form(fit, here));
    curve.log_us.push_back(curve.log_form.back() + off / known);
  }
  std::vector<Weighted> wanted;
  for (const double value : curve.log_us) {
    wanted.push_back({value, 1});
  }
  curve.log_us = never_falling(wanted);
  return along(curve, call.bytes.value, log_form(fit, call));
}

/// Where a placement stands between others.
double scale_of(std::int64_t ranks, std::int64_t nodes) {
  return std::log2(static_cast<double>(ranks)) + std::log2(static_cast<double>(nodes));
}

/// The form for more or fewer nodes than were measured: steps as many as there are, but the network's share
/// of them as at the nearest, since nothing says that it goes on falling.
double log_beyond(const PairFit& fit, const TimedCall& call, const Knots& nearest) {
  const Features here = features(fit.algorithm, fit.protocol, call);
  const Features there = features(fit.algorithm, fit.protocol, at(call, call.bytes.value, nearest));
  double us = 0;
  for (std::size_t index = 0; index < here.size(); ++index) {
    us += fit.coefficients[index] * (index == 3 || index == 5 ? there[index] : here[index]);
  }
  return std::log(std::max(us, 1e-9));
}

/// Between measured numbers of nodes: on the line between the logarithms of both; beyond, off as at the
/// nearest.
double by_neighbours(const PairFit& fit, const TimedCall& call) {
  const Knots* below = nullptr;
  const Knots* above = nullptr;
  const double here = scale_of(call.place.ranks, call.place.nodes);
  for (const Knots& knots : fit.knots) {
    const double there = scale_of(knots.ranks, knots.nodes);
    if (there <= here && (below == nullptr || there > scale_of(below->ranks, below->nodes))) {
      below = &knots;
    }
    if (there >= here && (above == nullptr || there < scale_of(above->ranks, above->nodes))) {
      above = &knots;
    }
  }
  if (below != nullptr && above != nullptr) {
    const double low = scale_of(below->ranks, below->nodes);
    const double high = scale_of(above->ranks, above->nodes);
    const double share = high > low ? (here - low) / (high - low) : 0;
    return along_knots(fit, *below, call) * (1 - share) + along_knots(fit, *above, call) * share;
  }
  COMMLENS_CHECK(below != nullptr || above != nullptr, "a pair with measured times has a nearest one");
  const Knots& nearest = below != nullptr ? *below : *above;
  const TimedCall there = at(call, call.bytes.value, nearest);
  return log_beyond(fit, call, nearest) + along_knots(fit, nearest, there) - log_form(fit, there);
}

}  // namespace

Features features(const std::string& algorithm, const std::string& protocol, const TimedCall& call) {
  const auto bytes = static_cast<double>(call.bytes.value);
  const double sent = bytes * sent_share(call.op, call.place.ranks);
  const bool is_exchange = algorithm == "p2p";
  const bool is_ring =
      is_exchange || algorithm.find("ring") != std::string::npos || call.op != CommKind::all_reduce;
  const auto steps = static_cast<double>(ring_steps(call.op, call.place.ranks));
  if (call.place.nodes > 1) {
    const double doublings = std::log2(static_cast<double>(call.place.nodes));
    return {1,
            is_ring ? steps : 2 * doublings,
            sent / 1e3,
            sent / 1e3 * doublings,
            std::sqrt(sent) / 10,
            std::sqrt(sent) / 10 * doublings};
  }
  const bool is_switch = algorithm == "nvls";
  double extra = 0;
  if (is_exchange) {
    extra = peer_channels(call).most_bytes_per_channel / 1e3;
  } else if (protocol == "LL") {
    extra = sent / 1e3 * std::sqrt(sent / 1e6);
  }
  return {1, is_switch ? 0 : steps, sent / 1e3, bytes / 1e3, std::sqrt(sent) / 10, extra};
}

double form_us(const PairFit& fit, const TimedCall& call) {
  const Features values = features(fit.algorithm, fit.protocol, call);
  double us = 0;
  for (std::size_t index = 0; index < values.size(); ++index) {
    us += values[index] * fit.coefficients[index];
  }
  return us;
}

Prior prior_of(const std::string& algorithm, const std::string& protocol) {
  double base = 8.4;
  double step = 3.4;
  if (protocol == "LL") {
    base = algorithm == "tree" ? 6.8 : 6.6;
    step = .6;
  } else if (protocol == "LL128") {
    base = 14;
    step = algorithm == "tree" ? 1.25 : 1.9;
  } else if (algorithm == "tree") {
    step = 4;
  } else if (algorithm == "nvls") {
    base = 25;
    step = 0;
  }
  return {{base, step, 1.0 / 200, 0, 0, 0}, {base, std::max(step, .2), 1.0 / 50, 1.0 / 100, .5, 1.0 / 20}};
}

double calibrated_us(const PairFit& fit, const TimedCall& call) {
  for (const Knots& knots : fit.knots) {
    if (knots.ranks == call.place.ranks && knots.nodes == call.place.nodes) {
      return std::exp(along_knots(fit, knots, call));
    }
  }
  if (fit.knots.empty()) {
    return form_us(fit, call);
  }
  return std::exp(fit.several_nodes ? by_neighbours(fit, call) : by_mean(fit, call));
}

bool covers(const PairFit& fit, const Placement& place) {
  bool has_below = false;
  bool has_above = false;
  for (const Knots& knots : fit.knots) {
    has_below = has_below || scale_of(knots.ranks, knots.nodes) <= scale_of(place.ranks, place.nodes);
    has_above = has_above || scale_of(knots.ranks, knots.nodes) >= scale_of(place.ranks, place.nodes);
  }
  return has_below && has_above;
}

std::size_t measured_sizes(const PairFit& fit) {
  std::set<std::int64_t> sizes;
  for (const Knots& knots : fit.knots) {
    sizes.insert(knots.bytes.begin(), knots.bytes.end());
  }
  return sizes.size();
}

std::size_t size_range(Bytes bytes) {
  return bytes.value < 8192        ? 0
         : bytes.value < 65'536    ? 1
         : bytes.value < (1 << 20) ? 2
         : bytes.value < (1 << 24) ? 3
                                   : 4;
}

double weighted_median(std::vector<Weighted> values) {
  std::sort(values.begin(), values.end(),
            [](const Weighted& a, const Weighted& b) { return a.value < b.value; });
  double all = 0;
  for (const Weighted& value : values) {
    all += value.weight;
  }
  double below = 0;
  for (std::size_t index = 0; index < values.size(); ++index) {
    below += values[index].weight;
    if (below * 2 == all && index + 1 < values.size()) {
      return (values[index].value + values[index + 1].value) / 2;
    }
    if (below * 2 >= all) {
      return values[index].value;
    }
  }
  return values.back().value;
}

std::vector<double> never_falling(const std::vector<Weighted>& values) {
  struct Pool {
    std::vector<Weighted> members;
    double middle = 0;
  };
  std::vector<Pool> pools;
  for (const Weighted& value : values) {
    pools.push_back({{value}, value.value});
    while (pools.size() > 1 && pools[pools.size() - 2].middle > pools.back().middle) {
      const Pool last = std::move(pools.back());
      pools.pop_back();
      Pool& joined = pools.back();
      joined.members.insert(joined.members.end(), last.members.begin(), last.members.end());
      joined.middle = weighted_median(joined.members);
    }
  }
  std::vector<double> result;
  for (const Pool& pool : pools) {
    result.insert(result.end(), pool.members.size(), pool.middle);
  }
  return result;
}

}  // namespace commlens
