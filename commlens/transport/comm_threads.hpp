#pragma once
#include <memory>

#include "commlens/transport/communicator.hpp"
#include "commlens/transport/thread_group.hpp"

namespace commlens {

/// The communicator of member `self` of a group of threads; buffers are host memory. A call is carried out by
/// the ranks that wait for it, at once when it is small; calls of a group of one complete when they are made.
/// Results are the same on all ranks and in all runs: ranks are combined in group order.
///
/// Ranks whose calls do not match end the job with an error that names both calls, and so does a rank that
/// destroys its communicator while others wait for a call of it. A Work destroyed by an exception releases
/// its buffers first; the rank must then end the job (run_thread_ranks does), because its calls stay
/// incomplete.
std::unique_ptr<Communicator> thread_communicator(std::shared_ptr<ThreadGroup> group, GroupRank self);

}  // namespace commlens
