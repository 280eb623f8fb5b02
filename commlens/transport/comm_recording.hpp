#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>

#include "commlens/comm/group.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens {

/// The time of a rank's thread inside start() and wait(), and its calls, per kind of call; one object per
/// rank, shared by its recording communicators.
struct CommClock {
  static constexpr std::size_t k_kinds = static_cast<std::size_t>(CommKind::other) + 1;
  std::array<std::chrono::nanoseconds, k_kinds> blocked{};
  std::array<std::int64_t, k_kinds> calls{};
};

/// Decorates a communicator: every call (but barriers of a group of one) is written to `recorder`, and its
/// blocking time added to `clock`; outside of calls the recorder counts the rank as computing. Groups are
/// recorded under `axis`; send and recv under the ordered pair. gather and scatter are of kind `other`, by
/// their name; calls that are issued as one are recorded one by one, and end together. `number` distinguishes
/// communicators of the same ranks; all members pass the same number. Both references outlive the
/// communicator. split() of it returns undecorated communicators: the caller knows their axis.
std::unique_ptr<Communicator> recorded(std::unique_ptr<Communicator> communicator, Axis axis,
                                       Recorder& recorder, CommClock& clock,
                                       CommunicatorId number = k_no_communicator);

}  // namespace commlens
