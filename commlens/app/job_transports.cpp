#include "commlens/app/job_transports.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commlens/app/launcher.hpp"
#include "commlens/app/train_transport.hpp"
#include "commlens/transport/comm_mixed.hpp"
#include "commlens/transport/mpi_world.hpp"
#include "commlens/transport/nccl_algorithms.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens {
namespace {

/// Fails where NCCL has no algorithm of the table for any group.
Result<void> check_nccl_table(const TransportTable& table) {
  for (std::size_t place = 0; place < table.entries.size(); ++place) {
    const TransportEntry& entry = table.entries[place];
    const std::vector<std::string> names = nccl_algorithms(entry.kind);
    if (!entry.algorithm.empty() && std::find(names.begin(), names.end(), entry.algorithm) == names.end()) {
      return failure(fmt::format(
          "{}: NCCL has no algorithm {} of {}; {}", table.where(place), entry.algorithm, name_of(entry.kind),
          names.empty() ? "leave the column empty" : fmt::format("choose of {}", fmt::join(names, ", "))));
    }
  }
  return {};
}

}  // namespace

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
        if (name == name_of(Transport::nccl)) {  // which is opened late, by ranks that have begun
          if (const Result<void> usable = check_nccl_table(table); !usable) {
            return failure(fmt::format("{}: {}", file, usable.error().message));
          }
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

Result<std::optional<TransportTable>> table_of_threads(const std::string& file, std::int64_t ranks) {
  return table_of_transports(file, "threads").and_then([&](std::optional<TransportTable> table) {
    Result<void> usable;
    if (table) {
      run_thread_ranks(ranks, [&](std::unique_ptr<Communicator> world) {
        const bool is_first = world->rank() == GroupRank{0};
        const auto tried = over_table(std::move(world), "threads", table, {});
        if (is_first && !tried) {
          usable = tl::unexpected(tried.error());
        }
      });
    }
    return usable.map([&] { return std::move(table); });
  });
}

Result<std::unique_ptr<Communicator>> open_mpi_job(const MpiJobRequest& request) {
  if (request.transports.empty()) {
    return open_mpi_world(request.mpi,
                          wants_mpi_progress(request.progress, launched_ranks(), request.threads));
  }
  if (request.progress == CallProgress::on) {
    return failure("--transports: algorithms cannot be chosen with --progress on; leave one of them out");
  }
  return open_tunable_mpi_world(request.mpi)
      .and_then([&](TunableMpiWorld opened) -> Result<std::unique_ptr<Communicator>> {
        const Result<std::optional<TransportTable>> table = table_of_transports(request.transports, "mpi");
        const Result<bool> ready =
            all_ready(*opened.world, table ? Result<void>() : tl::unexpected(table.error()));
        if (!ready) {
          return tl::unexpected(ready.error());
        }
        if (!*ready) {
          return failure("--transports: another rank of this job cannot use its table");
        }
        return over_table(std::move(opened.world), "mpi", *table, request.events);
      });
}

}  // namespace commlens
