#include "commlens/cli/rank_flags.hpp"

#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/base/units.hpp"

namespace commlens {

CLI::Option* declare_mpi(CLI::App& verb, std::string& mpi) {
  return verb.add_option("--mpi", mpi, "Which MPI; default: the launcher's")
      ->check(CLI::IsMember({"openmpi", "mpich"}));
}

CLI::Option* declare_transports(CLI::App& verb, std::string& file) {
  return verb
      .add_option("--transports", file,
                  "Algorithms of the transport by op, size and group: a table, as tune --write-transports "
                  "writes it")
      ->type_name("FILE");
}

void RankFlags::declare(CLI::App& verb, bool has_nccl) {
  const std::vector<std::string> names = has_nccl ? std::vector<std::string>{"threads", "mpi", "nccl"}
                                                  : std::vector<std::string>{"threads", "mpi"};
  verb.add_option(
          "--transport", transport,
          fmt::format("threads: ranks in this process; mpi: under mpirun{}", has_nccl ? "; nccl: GPUs" : ""))
      ->check(CLI::IsMember(names))
      ->capture_default_str()
      ->group(k_group);
  declare_mpi(verb, mpi)->group(k_group);
  declare_transports(verb, transports)->group(k_group);
  verb.add_option("--progress", progress,
                  "Threads that move calls on while ranks compute; auto: where cores are free for them")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str()
      ->group(k_group);
  verb.add_option("--timeout", timeout, "Longest wait for one call, as 90s or 2h; 0: no limit")
      ->type_name("TIME")
      ->capture_default_str()
      ->group(k_group);
}

Transport RankFlags::chosen_transport() const {
  return transport == "mpi" ? Transport::mpi : transport == "nccl" ? Transport::nccl : Transport::threads;
}

CallProgress RankFlags::chosen_progress() const {
  return progress == "on"    ? CallProgress::on
         : progress == "off" ? CallProgress::off
                             : CallProgress::automatic;
}

Result<std::chrono::nanoseconds> RankFlags::parsed_timeout() const {
  return parse_duration(timeout).map_error(
      [](const Error& error) { return Error{"--timeout: " + error.message}; });
}

}  // namespace commlens
