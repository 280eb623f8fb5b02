#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "commlens/machine/cost/library.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// Whether two releases of a library have the same tables: of NCCL those with the same minor number.
bool is_same_release(std::string_view a, std::string_view b);

/// A machine's calibrations of a library: those of its release (or of no release in particular) first, then
/// those of others; among equals as the machine has them, the newest first.
std::vector<const Calibration*> calibrations_of(const Machine& machine, const Library& library);

/// A pair of a machine, and the calibration that it is of.
struct KnownPair {
  const Calibration* calibration = nullptr;
  const PairFit* fit = nullptr;
};

/// What is known of a call under a pair: of the same release before others, what was measured before what was
/// taken over with the shape of another machine; in each calibration the pair itself, what was measured
/// without a choice where none was asked for, or the algorithm under any protocol.
std::optional<KnownPair> known_pair(const Machine& machine, const Library& library, const TimedCall& call,
                                    const PairName& name);

/// The same pair of another operation, the one whose steps are most alike.
std::optional<KnownPair> sibling_pair(const Machine& machine, const Library& library, const TimedCall& call,
                                      const PairName& name);

/// The pairs that a machine has times of for an operation, between nodes or in one; each once.
std::vector<PairName> measured_pairs(const Machine& machine, const Library& library, const TimedCall& call);

}  // namespace commlens
