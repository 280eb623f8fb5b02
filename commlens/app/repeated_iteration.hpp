#pragma once
#include <cstdint>

#include "commlens/base/result.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Of the latest calls of a job that marks no iterations: those of one iteration of each rank, which begins
/// anywhere, another place on each rank. What a rank repeats (repeating_part()) must fill three iterations as
/// long as `predicted` has them, so that it is none of the repetitions within one; where a rank repeats
/// several times an iteration, as many as come closest to that length are taken. Fails where a rank has
/// repeated too little, and where members of a group do not make equally many calls on it.
Result<Trace> repeated_iteration(Trace latest, const Trace& predicted);

}  // namespace commlens
