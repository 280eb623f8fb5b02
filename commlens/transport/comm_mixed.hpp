#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/transport/communicator.hpp"
#include "commlens/transport/transport_table.hpp"

namespace commlens {

/// One of the transports of a job: a communicator of all its ranks, under the name that tables have for it.
struct NamedTransport {
  std::string name;  // "threads", "mpi", "nccl"
  std::unique_ptr<Communicator> communicator;
};

/// A communicator over several transports of the same ranks in the same order, whose buffers are of the same
/// memory: each call takes the one that the table says, with the algorithm that it says. The first transport
/// takes what no entry fits, and calls whose ranks may see different sizes: of unequal parts, gather and
/// scatter. The same table is given on all ranks. Fails, on every rank alike and naming the line, where the
/// job has no such transport, or the transport no such algorithm. Collective.
///
/// Every transport of the job has its own order: a call over one does not wait for a call over another.
/// Where an algorithm of the table is not there for the size of a group that split() makes, calls of that
/// entry take the library's choice; `warn`, if any, gets a line of it, on the first rank and once an entry
/// and size. Calls that are started move while ranks compute only if they do on each transport. The result
/// has no algorithms() of its own.
Result<std::unique_ptr<Communicator>> mixed(std::vector<NamedTransport> transports, TransportTable table,
                                            std::function<void(const std::string&)> warn = {});

/// The same over the one transport of a job, `name`: a table can choose its algorithms.
Result<std::unique_ptr<Communicator>> mixed(std::unique_ptr<Communicator> world, const std::string& name,
                                            TransportTable table,
                                            std::function<void(const std::string&)> warn = {});

}  // namespace commlens
