#include "commlens/machine/cost/known_pairs.hpp"

#include <algorithm>

namespace commlens {
namespace {

bool is_of_release(const Calibration& calibration, const Library& library) {
  return calibration.version.empty() || is_same_release(calibration.version, library.version);
}

bool is_of_call(const PairFit& pair, const TimedCall& call) {
  return pair.op == call.op && pair.several_nodes == (call.place.nodes > 1);
}

const PairFit* pair_in(const Calibration& calibration, const TimedCall& call, const PairName& name,
                       bool is_measured) {
  const auto found =
      std::find_if(calibration.pairs.begin(), calibration.pairs.end(), [&](const PairFit& pair) {
        return is_of_call(pair, call) && pair.algorithm == name.algorithm && pair.protocol == name.protocol &&
               (pair.rows > 0) == is_measured;
      });
  return found == calibration.pairs.end() ? nullptr : &*found;
}

const PairFit* nearest_pair(const Calibration& calibration, const Library& library, const TimedCall& call,
                            const PairName& name, bool is_measured) {
  const PairFit* found = pair_in(calibration, call, name, is_measured);
  if (found == nullptr && library.algorithms.empty()) {
    found = pair_in(calibration, call, {"any", "any"}, is_measured);
  }
  return found != nullptr ? found : pair_in(calibration, call, {name.algorithm, "any"}, is_measured);
}

}  // namespace

bool is_same_release(std::string_view a, std::string_view b) {
  const Result<int> left = nccl_minor(a);
  const Result<int> right = nccl_minor(b);
  return left && right ? *left == *right : a == b;
}

std::vector<const Calibration*> calibrations_of(const Machine& machine, const Library& library) {
  std::vector<const Calibration*> found;
  for (const bool is_wanted_release : {true, false}) {
    for (const Calibration& calibration : machine.calibrations) {
      if (calibration.library == library.name && is_of_release(calibration, library) == is_wanted_release) {
        found.push_back(&calibration);
      }
    }
  }
  return found;
}

std::optional<KnownPair> known_pair(const Machine& machine, const Library& library, const TimedCall& call,
                                    const PairName& name) {
  const std::vector<const Calibration*> calibrations = calibrations_of(machine, library);
  for (const bool is_wanted_release : {true, false}) {
    for (const bool is_measured : {true, false}) {
      for (const Calibration* const calibration : calibrations) {
        const PairFit* const fit = is_of_release(*calibration, library) == is_wanted_release
                                       ? nearest_pair(*calibration, library, call, name, is_measured)
                                       : nullptr;
        if (fit != nullptr) {
          return KnownPair{calibration, fit};
        }
      }
    }
  }
  return std::nullopt;
}

std::optional<KnownPair> sibling_pair(const Machine& machine, const Library& library, const TimedCall& call,
                                      const PairName& name) {
  for (const Calibration* const calibration : calibrations_of(machine, library)) {
    for (const CommKind op : {CommKind::all_gather, CommKind::reduce_scatter, CommKind::all_reduce}) {
      TimedCall other = call;
      other.op = op;
      for (const bool is_measured : {true, false}) {
        if (const PairFit* const fit = pair_in(*calibration, other, name, is_measured)) {
          return KnownPair{calibration, fit};
        }
      }
    }
  }
  return std::nullopt;
}

std::vector<PairName> measured_pairs(const Machine& machine, const Library& library, const TimedCall& call) {
  std::vector<PairName> names;
  for (const Calibration* const calibration : calibrations_of(machine, library)) {
    for (const PairFit& pair : calibration->pairs) {
      const PairName name{pair.algorithm, pair.protocol};
      if (is_of_call(pair, call) && std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  return names;
}

}  // namespace commlens
