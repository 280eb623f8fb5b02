#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "commlens/app/events.hpp"
#include "commlens/app/transport_choice.hpp"
#include "commlens/base/result.hpp"
#include "commlens/transport/communicator.hpp"
#include "commlens/transport/transport_table.hpp"

namespace commlens {

/// Reads the file of --transports; std::nullopt for an empty name. Fails where the job has no such transport:
/// it has the one called `name`.
Result<std::optional<TransportTable>> table_of_transports(const std::string& file, std::string_view name);

/// The communicator of a job with the table, if there is one. Fails, on every rank alike, where the transport
/// has no such algorithm for the whole job. Of an algorithm that it does not have for groups of another size,
/// which then take the library's choice, the first rank warns. Collective.
Result<std::unique_ptr<Communicator>> over_table(std::unique_ptr<Communicator> world, const std::string& name,
                                                 const std::optional<TransportTable>& table,
                                                 const Events& events);

/// The table of a job of so many threads: fails also where they do not have an algorithm of it, so that
/// over_table() does not.
Result<std::optional<TransportTable>> table_of_threads(const std::string& file, std::int64_t ranks);

/// How a process joins the MPI job that it was started in.
struct MpiJobRequest {
  std::string mpi;         // openmpi or mpich; empty: the launcher's
  std::string transports;  // the file of --transports; empty: none
  CallProgress progress = CallProgress::automatic;
  std::optional<std::int64_t> threads;  // of each rank; absent: its share of the cores
  Events events;
};

/// The ranks of the MPI job. Fails on every rank where one cannot use its table. With a table no thread
/// progresses calls: a library has one variable for all threads of a process. Collective.
Result<std::unique_ptr<Communicator>> open_mpi_job(const MpiJobRequest& request);

}  // namespace commlens
