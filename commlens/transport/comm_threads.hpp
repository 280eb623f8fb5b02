#pragma once
#include <memory>

#include "commlens/transport/communicator.hpp"
#include "commlens/transport/thread_group.hpp"

namespace commlens {

/// The communicator of member `self` of a group of threads; buffers are host memory. A call is carried out by
/// the ranks that wait for it, at once when it is small; calls of a group of one complete when they are made.
/// Results are the same on all ranks and in all runs: ranks are combined in group order.
///
/// Ranks whose calls do not match end the job, naming both calls, and so does a rank that drops its
/// communicator while others wait for a call of it. Works that an exception drops give their buffers back
/// before they are gone; the rank must then end the job (run_thread_ranks does), for its calls stay
/// incomplete.
std::unique_ptr<Communicator> thread_communicator(std::shared_ptr<ThreadGroup> group, GroupRank self);

}  // namespace commlens
