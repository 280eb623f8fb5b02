#include "commlens/machine/cost/collective.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "commlens/machine/cost/comm_graph.hpp"
#include "commlens/machine/cost/form.hpp"
#include "commlens/machine/cost/known_pairs.hpp"
#include "commlens/machine/cost/nccl_tables.hpp"

namespace commlens {
namespace {

// Measured errors of docs/results/calibrate.md, as factors.
constexpr double k_lent = 1.1;            // another machine of the same GPUs: P90 of B200 for GB200, 10 %
constexpr double k_other_release = 1.25;  // coefficients of another release: P90 23 %
constexpr double k_extrapolated = 1.3;    // ranks beyond those measured: P90 28 %
constexpr double k_constants_low = 1.35;  // a library's constants alone: mostly too low, P90 42 %
constexpr double k_constants_high = 2.2;

const Candidate* candidate_of(const std::vector<Candidate>& candidates, const std::string& algorithm,
                              const std::string& protocol) {
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
    return candidate.algorithm == algorithm && candidate.protocol == protocol;
  });
  return found == candidates.end() ? nullptr : &*found;
}

bool has_knot(const PairFit& fit, const TimedCall& call) {
  return std::any_of(fit.knots.begin(), fit.knots.end(), [&](const Knots& knots) {
    return knots.ranks == call.place.ranks && knots.nodes == call.place.nodes &&
           std::binary_search(knots.bytes.begin(), knots.bytes.end(), call.bytes.value);
  });
}

bool was_measured_at(const PairFit& fit, const Placement& place) {
  return std::any_of(fit.knots.begin(), fit.knots.end(), [&](const Knots& knots) {
    return knots.ranks == place.ranks && knots.nodes == place.nodes;
  });
}

/// Groups with as many ranks on a node, where that can differ.
bool was_measured_alike(const PairFit& fit, const Placement& place) {
  return !fit.several_nodes || std::any_of(fit.knots.begin(), fit.knots.end(), [&](const Knots& knots) {
    return Placement{knots.ranks, knots.nodes}.per_node() == place.per_node();
  });
}

bool is_beyond_sizes(const PairFit& fit, Bytes bytes) {
  constexpr std::int64_t far = 4;
  return std::none_of(fit.knots.begin(), fit.knots.end(), [&](const Knots& knots) {
    return bytes.value <= knots.bytes.back() * far && bytes.value * far >= knots.bytes.front();
  });
}

/// A time with the interval of a factor to both sides.
CollectiveTime with_interval(double us, double factor, TimeSource source, std::string source_of) {
  return {us, us / factor, us * factor, source, std::move(source_of), "", "", 0};
}

/// The time of a calibrated pair, and what makes it less than calibrated.
CollectiveTime by_fit(const Calibration& calibration, const PairFit& fit, const Library& library,
                      const TimedCall& call) {
  const bool is_between = fit.several_nodes && !was_measured_at(fit, call.place);
  const std::array<double, 5>& spread = is_between ? calibration.spread_of_nodes : calibration.spread;
  double factor = std::exp(spread[size_range(call.bytes)]);
  TimeSource source = has_knot(fit, call) ? TimeSource::measured : TimeSource::calibrated;
  std::string source_of = calibration.source;
  const auto lower_to = [&](double least, std::string of) {
    factor = std::max(factor, least);
    source = TimeSource::borrowed;
    source_of = std::move(of);
  };
  if (fit.rows == 0 || (!calibration.shape_from.empty() && !covers(fit, call.place))) {
    lower_to(k_lent, calibration.shape_from);
  } else if (!covers(fit, call.place)) {
    lower_to(k_extrapolated, "other numbers of ranks");
  } else if (!was_measured_alike(fit, call.place)) {
    lower_to(k_extrapolated, "other numbers of ranks on a node");
  } else if (measured_sizes(fit) < k_enough_sizes && !has_knot(fit, call)) {
    lower_to(k_extrapolated, "the library's constants");
  } else if (is_beyond_sizes(fit, call.bytes)) {
    lower_to(k_extrapolated, "other sizes");
  }
  // A sweep that does not say its release is of whatever the machine runs.
  if (!calibration.version.empty() && !is_same_release(calibration.version, library.version)) {
    lower_to(k_other_release, fmt::format("{} {}", calibration.library, calibration.version));
  }
  return with_interval(calibrated_us(fit, call), factor, source, source_of);
}

/// The call as one over as many NICs of a node as the measured groups had, where none had as many ranks on a
/// node: a group with a half of them takes as long as one with all takes for twice the bytes. What leaves a
/// node in an exchange or a message grows with its ranks as its NICs do.
TimedCall over_measured_nics(const Machine& machine, const PairFit& fit, const TimedCall& call) {
  const bool is_ring =
      call.op != CommKind::all_to_all && call.op != CommKind::send && call.op != CommKind::recv;
  const double nics = nics_of(machine, call.place);
  TimedCall scaled = call;
  if (call.place.nodes > 1 && is_ring && !fit.knots.empty() && nics > 0 &&
      !was_measured_alike(fit, call.place)) {
    double measured = nics;  // of the group nearest to it
    double nearest = std::numeric_limits<double>::infinity();
    for (const Knots& knots : fit.knots) {
      const double other = nics_of(machine, {knots.ranks, knots.nodes});
      if (std::abs(std::log(other / nics)) < nearest) {
        nearest = std::abs(std::log(other / nics));
        measured = other;
      }
    }
    scaled.bytes = Bytes{std::llround(static_cast<double>(call.bytes.value) * measured / nics)};
  }
  return scaled;
}

/// A pair that was not measured: as another operation under the same algorithm and protocol.
std::optional<CollectiveTime> by_sibling(const Machine& machine, const Library& library,
                                         const TimedCall& call, const PairName& name) {
  const std::optional<KnownPair> known = sibling_pair(machine, library, call, name);
  if (!known) {
    return std::nullopt;
  }
  PairFit alike = *known->fit;
  alike.knots.clear();  // those of the other operation
  return with_interval(form_us(alike, over_measured_nics(machine, *known->fit, call)), k_extrapolated,
                       TimeSource::borrowed, std::string(name_of(known->fit->op)));
}

/// The library's estimate of a pair; 0 where it has none.
double library_us(const Machine& machine, const Library& library, const TimedCall& call,
                  const PairName& name) {
  Library unrestricted = library;
  unrestricted.algorithms.clear();
  unrestricted.protocols.clear();
  const Result<std::vector<Candidate>> candidates = library_candidates(machine, unrestricted, call);
  const Candidate* const found =
      candidates ? candidate_of(*candidates, name.algorithm, name.protocol) : nullptr;
  return found == nullptr ? 0 : found->library_us;
}

/// The same without its steps downwards: corrections by size change at powers of two, where an estimate may
/// fall.
double rising_library_us(const Machine& machine, const Library& library, const TimedCall& call,
                         const PairName& name) {
  double most = library_us(machine, library, call, name);
  TimedCall before = call;
  for (std::int64_t power = 128; power <= call.bytes.value && power < (std::int64_t{1} << 40); power *= 2) {
    before.bytes = Bytes{power - 1};
    most = std::max(most, library_us(machine, library, before, name));
  }
  return most;
}

/// Logarithms of a pair's measured times over the library's estimates of them.
std::vector<double> logs_of_ratios(const PairFit& fit, const Machine& machine, const Library& library,
                                   DType dtype) {
  std::vector<double> logs;
  for (const Knots& knots : fit.knots) {
    for (std::size_t index = 0; index < knots.bytes.size(); ++index) {
      const TimedCall there{fit.op, Bytes{knots.bytes[index]}, dtype, {knots.ranks, knots.nodes}};
      const double estimate = library_us(machine, library, there, {fit.algorithm, fit.protocol});
      if (estimate > 0) {
        logs.push_back(std::log(knots.us[index] / estimate));
      }
    }
  }
  return logs;
}

/// How measured times of the operation stand to the library's estimates of them, on average; 0: there are
/// none.
double usual_ratio(const Calibration& calibration, const Machine& machine, const Library& library,
                   const TimedCall& call) {
  double sum = 0;
  double count = 0;
  for (const PairFit& fit : calibration.pairs) {
    if (fit.op == call.op && fit.several_nodes == (call.place.nodes > 1)) {
      for (const double log : logs_of_ratios(fit, machine, library, call.dtype)) {
        sum += log;
        count += 1;
      }
    }
  }
  return count > 0 ? std::exp(sum / count) : 0;
}

std::optional<CollectiveTime> by_known_pair(const Machine& machine, const Library& library,
                                            const TimedCall& call, const PairName& name) {
  const std::optional<KnownPair> known = known_pair(machine, library, call, name);
  return known ? std::optional(by_fit(*known->calibration, *known->fit, library,
                                      over_measured_nics(machine, *known->fit, call)))
               : std::nullopt;
}

/// As far off the library's estimate as other pairs of the operation are.
std::optional<CollectiveTime> by_ratio(const Machine& machine, const Library& library, const TimedCall& call,
                                       const PairName& name) {
  const double estimate = rising_library_us(machine, library, call, name);
  for (const Calibration* const calibration : calibrations_of(machine, library)) {
    const double ratio = usual_ratio(*calibration, machine, library, call);
    if (ratio > 0 && estimate > 0) {
      return with_interval(ratio * estimate, k_extrapolated, TimeSource::borrowed, "other pairs");
    }
  }
  return std::nullopt;
}

CollectiveTime lent(const Machine& lender, const CollectiveTime& time) {
  const double factor = std::max(time.high_us / time.us, k_lent);
  const std::string of =
      time.source == TimeSource::borrowed ? fmt::format("{} ({})", lender.name, time.source_of) : lender.name;
  return with_interval(time.us, factor, TimeSource::borrowed, of);
}

/// What was measured of the pair, here or by the lender, before what other operations and pairs say of it.
std::optional<CollectiveTime> by_calibration(const CostQuery& query, const Library& library,
                                             const PairName& name) {
  for (const auto& known_by : {by_known_pair, by_sibling, by_ratio}) {
    if (const auto time = known_by(*query.machine, library, query.call, name)) {
      return time;
    }
    if (query.lender != nullptr) {
      if (const auto time = known_by(*query.lender, library, query.call, name)) {
        return lent(*query.lender, *time);
      }
    }
  }
  return std::nullopt;
}

/// How much more than a link has measured times of the pair show; 1: none does. (Switches that reduce can:
/// each rank sends its part once.)
double measured_gain(const Machine& machine, const Library& library, const TimedCall& call,
                     const PairName& name) {
  const std::optional<KnownPair> known = known_pair(machine, library, call, name);
  double gain = 1;
  for (const Knots& knots : known ? known->fit->knots : std::vector<Knots>()) {
    for (std::size_t index = 0; index < knots.bytes.size(); ++index) {
      const TimedCall there{call.op, Bytes{knots.bytes[index]}, call.dtype, {knots.ranks, knots.nodes}};
      gain = std::max(gain, least_us(machine, there) / knots.us[index]);
    }
  }
  return gain;
}

/// `library`: that of the query, with what was asked for.
Result<CollectiveTime> time_of(const CostQuery& query, const Library& library, const PairName& name,
                               const std::vector<Candidate>& candidates) {
  const TimedCall& call = query.call;
  std::optional<CollectiveTime> time = by_calibration(query, library, name);
  const Candidate* const candidate = candidate_of(candidates, name.algorithm, name.protocol);
  if (!time) {
    if (candidate == nullptr) {
      return failure(
          fmt::format("machine {}: {} {} {}/{} on {} ranks was not measured and {} has no estimate of it; "
                      "run commlens calibrate with a sweep",
                      query.machine->name, query.library.name, name_of(call.op), name.algorithm,
                      name.protocol, call.place.ranks, query.library.name));
    }
    const double estimate =
        query.tuning.empty() ? rising_library_us(*query.machine, library, call, name) : candidate->library_us;
    time = CollectiveTime{estimate,
                          estimate / k_constants_low,
                          estimate * k_constants_high,
                          TimeSource::uncalibrated,
                          fmt::format("{} {}", query.library.name, query.library.version),
                          "",
                          "",
                          0};
  }
  const double least = least_us(*query.machine, call) / measured_gain(*query.machine, library, call, name);
  const double above = time->high_us / time->us;  // the bound says nothing about how much longer it takes
  time->us = std::max(time->us, least);
  time->low_us = std::max(time->low_us, least);
  time->high_us = std::max(time->high_us, time->us * above);
  time->algorithm = name.algorithm;
  time->protocol = name.protocol;
  time->library_us = candidate == nullptr ? 0 : candidate->library_us;
  return *time;
}

Result<void> check_query(const CostQuery& query) {
  const TimedCall& call = query.call;
  const Machine& machine = *query.machine;
  if (const Result<void> runs = check_runs_on(query.library.name, machine); !runs) {
    return runs;
  }
  if (call.op == CommKind::barrier || call.op == CommKind::other) {
    return failure(fmt::format("{} has no time model", name_of(call.op)));
  }
  if (call.place.ranks < 1 || call.bytes.value < 1) {
    return failure("a call needs at least one rank and one byte");
  }
  const auto per_node = static_cast<std::int64_t>(machine.ranks_per_node.value);
  if (call.place.per_node() > per_node) {
    return failure(
        fmt::format("{} ranks on a node: {} has {}", call.place.per_node(), machine.name, per_node));
  }
  if (machine.nodes && static_cast<double>(call.place.nodes) > machine.nodes->value) {
    return failure(fmt::format("{} nodes: {} has {}", call.place.nodes, machine.name, machine.nodes->value));
  }
  return {};
}

const Candidate& fastest(const std::vector<Candidate>& candidates) {
  return *std::min_element(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.library_us < b.library_us;
  });
}

/// MPI has no table here: the fastest of the algorithms that were measured, or the one that was asked for.
Result<std::vector<TimedCandidate>> mpi_times(const CostQuery& query) {
  std::vector<TimedCandidate> times;
  for (const PairName& pair : measured_pairs(*query.machine, query.library, query.call)) {
    if (query.library.algorithms.empty() || query.library.algorithms.front() == pair.algorithm) {
      const Result<CollectiveTime> time = time_of(query, query.library, pair, {});
      if (time) {
        times.push_back({{pair.algorithm, pair.protocol}, *time});
      }
    }
  }
  if (times.empty()) {
    return failure(
        fmt::format("machine {}: no MPI time of {} was measured {}; run commlens calibrate with a sweep",
                    query.machine->name, name_of(query.call.op),
                    query.call.place.nodes > 1 ? "between nodes" : "in a node"));
  }
  std::min_element(times.begin(), times.end(), [](const TimedCandidate& a, const TimedCandidate& b) {
    return a.time.us < b.time.us;
  })->is_chosen = true;
  return times;
}

}  // namespace

bool runs_on(const std::string& library, Architecture architecture) {
  const bool is_amd = architecture == Architecture::cdna2 || architecture == Architecture::cdna3;
  return library == "mpi" || (architecture != Architecture::other && is_amd == (library == "rccl"));
}

Result<void> check_runs_on(const std::string& library, const Machine& machine) {
  return runs_on(library, machine.processor.architecture)
             ? Result<void>()
             : failure(fmt::format(
                   "{} does not run on {} ({}); times of another library need a sweep, commlens calibrate",
                   library, machine.name, machine.processor.name));
}

std::string_view name_of(TimeSource source) {
  constexpr std::array<std::string_view, 4> names = {"measured", "calibrated", "borrowed", "uncalibrated"};
  return names[static_cast<std::size_t>(source)];
}

Result<std::vector<TimedCandidate>> candidate_times(const CostQuery& query) {
  if (const Result<void> checked = check_query(query); !checked) {
    return tl::unexpected(checked.error());
  }
  if (query.call.place.ranks == 1) {  // nothing moves
    const CollectiveTime none{0, 0, 0, TimeSource::measured, "one rank sends nothing", "ring", "Simple", 0};
    return std::vector<TimedCandidate>{{{"ring", "Simple"}, none, true}};
  }
  if (query.library.name == "mpi") {
    return mpi_times(query);
  }
  return library_candidates(*query.machine, query.library, query.call, query.tuning)
      .and_then([&](const std::vector<Candidate>& candidates) -> Result<std::vector<TimedCandidate>> {
        if (candidates.empty()) {
          return failure(fmt::format("{} {} has no way to carry out {} here", query.library.name,
                                     query.library.version, name_of(query.call.op)));
        }
        const Candidate& chosen = fastest(candidates);
        std::vector<TimedCandidate> times;
        std::string error;
        for (const Candidate& candidate : candidates) {
          Library asked = query.library;
          if (&candidate !=
              &chosen) {  // what was measured without asking for an algorithm is not of this one
            asked.algorithms = {candidate.algorithm};
          }
          const Result<CollectiveTime> time =
              time_of(query, asked, {candidate.algorithm, candidate.protocol}, candidates);
          error = time ? error : time.error().message;
          times.push_back({candidate, time.value_or(CollectiveTime{}), &candidate == &chosen});
        }
        return error.empty() ? Result<std::vector<TimedCandidate>>(std::move(times)) : failure(error);
      });
}

Result<CollectiveTime> collective_time(const CostQuery& query) {
  return candidate_times(query).map([](const std::vector<TimedCandidate>& times) {
    return std::find_if(times.begin(), times.end(), [](const TimedCandidate& time) { return time.is_chosen; })
        ->time;
  });
}

Result<CollectiveTime> time_of_pair(const Machine& machine, const Library& library, const TimedCall& call,
                                    const PairName& pair) {
  Library asked = library;
  if (pair.algorithm != "any" && asked.algorithms.empty()) {
    asked.algorithms = {pair.algorithm};
  }
  if (asked.version.empty()) {
    asked.version = default_version(machine, asked.name);
  }
  return library_candidates(machine, asked, call).and_then([&](const std::vector<Candidate>& candidates) {
    return time_of({&machine, nullptr, asked, call, {}}, asked, pair, candidates);
  });
}

std::string default_version(const Machine& machine, std::string_view library) {
  for (const Calibration& calibration : machine.calibrations) {
    if (calibration.library == library && !calibration.version.empty()) {
      return calibration.version;
    }
  }
  return library == "nccl" ? fmt::format("2.{}", k_newest_nccl) : library == "rccl" ? "2.21.5" : "";
}

double least_us(const Machine& machine, const TimedCall& call) {
  const auto bytes = static_cast<double>(call.bytes.value);
  const auto us = [](double sent, const std::optional<Quantity>& rate, double times) {
    return rate && rate->value > 0 && times > 0 ? sent / (rate->value * times * 1e3) : 0;
  };
  double least = 0;
  if (call.place.per_node() > 1) {
    // What a rank gets over NICs, of a group on several nodes, goes around a ring as the rest does.
    least = us(bytes * sent_share(call.op, call.place.ranks), machine.up.bandwidth, 1);
  }
  if (call.place.nodes > 1 && machine.out.nics) {
    // Ranks of one node share what leaves it, be it by NICs that are not theirs; an exchange of all sends
    // each node's part to the others.
    const auto per_node = static_cast<double>(call.place.per_node());
    const double crossing = call.op == CommKind::all_to_all
                                ? bytes * per_node *
                                      static_cast<double>(call.place.ranks - call.place.per_node()) /
                                      static_cast<double>(call.place.ranks)
                                : bytes * sent_share(call.op, call.place.nodes);
    least = std::max(least, us(crossing, machine.out.bandwidth, machine.out.nics->value));
  }
  return least;
}

}  // namespace commlens
