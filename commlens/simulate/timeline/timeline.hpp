#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/plan/plan.hpp"
#include "commlens/simulate/timeline/rank_classes.hpp"

namespace commlens {

/// Picoseconds: whole numbers, so that the same steps take the same time whatever else is simulated beside
/// them.
using Ticks = std::int64_t;
constexpr double k_ticks_per_second = 1e12;
constexpr Ticks k_never = std::numeric_limits<Ticks>::max();

/// When a step ran.
struct StepTimes {
  Ticks ready = 0;   // all that it waits for had ended
  Ticks moving = 0;  // of a call: all its ranks had come; else as `ready`
  Ticks finished = 0;
};

/// A call that is under way, and how long it takes where nothing else moves.
struct MovingCall {
  OpId op{};
  ChannelId channel = 0;
  Ticks alone = 0;
};

/// A call that has ended, by the number that it began with.
struct PlayedCallEnd {
  std::uint32_t call = 0;
  Ticks when = 0;
};

/// Somebody who moves the calls in the engine's place.
struct CallPlayer {
  /// A call begins now, under a number that no other under way has. False: the engine shall move it.
  std::function<bool(std::uint32_t, const MovingCall&, Ticks)> begin;
  /// The next call that ends until then, the clock set to its end; else the clock set to then.
  std::function<std::optional<PlayedCallEnd>(Ticks)> next_end;
};

/// What steps take.
struct StepCosts {
  std::function<Ticks(const SimulatedClass&, WorkId)> work;
  std::function<Ticks(const ClassGroup&, OpId)> call;  // of a group of several ranks
  /// By how much a rank computes slower while a call is under way on it, 0 to 1: collectives hold
  /// multiprocessors.
  double held_share = 0;
  /// How fast each of the calls under way moves, of what it does alone: 0 to 1. Empty: all do.
  std::function<std::vector<double>(std::span<const MovingCall>)> speeds;
  CallPlayer player;  // empty: the engine moves calls, at these speeds
};

/// The steps of one class and when they ran.
struct ClassTimeline {
  Program program;
  std::vector<StepTimes> times;  // by step
};

/// Carries out one program after the other of every class, event by event. A step begins once the one before
/// it on its stream has ended, and those that it waits for. A collective moves once all its ranks have come,
/// a message once both have; a call of one rank takes no time. Fails where calls wait for each other for
/// ever, naming one, and where a player ends what it does not move. `iterations`: of the plan, in this order.
Result<std::vector<ClassTimeline>> timeline(const Plan& plan, const SimulatedRanks& ranks,
                                            const std::vector<Iteration>& iterations, const StepCosts& costs);

}  // namespace commlens
