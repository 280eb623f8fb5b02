#include "commlens/app/job_transports.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "commlens/app/launcher.hpp"
#include "commlens/app/train_transport.hpp"
#include "commlens/transport/comm_mixed.hpp"
#include "commlens/transport/mpi_world.hpp"

namespace commlens {

Result<std::optional<TransportTable>> table_of_transports(const std::string& file, std::string_view name) {
  if (file.empty()) {
    return std::nullopt;
  }
  return read_transport_table(file)
      .and_then([&](TransportTable table) -> Result<std::optional<TransportTable>> {
        const auto other = std::find_if(table.entries.begin(), table.entries.end(),
                                        [&](const TransportEntry& entry) { return entry.transport != name; });
        if (other != table.entries.end()) {
          const auto place = static_cast<std::size_t>(other - table.entries.begin());
          return failure(fmt::format("{}: {}: this job has no transport {}; it has {}", file,
                                     table.where(place), other->transport, name));
        }
        return std::optional(std::move(table));
      })
      .map_error([](const Error& error) { return Error{"--transports " + error.message}; });
}

Result<std::unique_ptr<Communicator>> over_table(std::unique_ptr<Communicator> world, const std::string& name,
                                                 const std::optional<TransportTable>& table,
                                                 const Events& events) {
  if (!table) {
    return Result<std::unique_ptr<Communicator>>(std::move(world));
  }
  return mixed(std::move(world), name, *table,
               [events](const std::string& text) { events.warn("--transports: " + text); })
      .map_error([](const Error& error) { return Error{"--transports: " + error.message}; });
}

Result<std::unique_ptr<Communicator>> open_mpi_job(const MpiJobRequest& request) {
  if (request.transports.empty()) {
    return open_mpi_world(request.mpi,
                          wants_mpi_progress(request.progress, launched_ranks(), request.threads));
  }
  if (request.progress == CallProgress::on) {
    return failure("--transports: algorithms cannot be chosen with --progress on; leave one of them out");
  }
  return table_of_transports(request.transports, "mpi")
      .and_then([&](const std::optional<TransportTable>& table) {
        return open_tunable_mpi_world(request.mpi).and_then([&](TunableMpiWorld opened) {
          return over_table(std::move(opened.world), "mpi", table, request.events);
        });
      });
}

}  // namespace commlens
