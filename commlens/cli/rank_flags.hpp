#pragma once
#include <chrono>
#include <string>

#include "commlens/app/transport_choice.hpp"
#include "commlens/base/result.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace commlens {

/// --mpi and --transports, which several verbs have. Return the option.
CLI::Option* declare_mpi(CLI::App& verb, std::string& mpi);
CLI::Option* declare_transports(CLI::App& verb, std::string& file);

/// What a verb's ranks are and what their calls go over: --transport, --mpi, --transports, --progress and
/// --timeout.
struct RankFlags {
  static constexpr const char* k_group = "Execution";  // in the help text

  std::string transport = "threads";
  std::string mpi;
  std::string transports;
  std::string progress = "auto";
  std::string timeout = "10min";

  /// `has_nccl`: the verb can run on GPUs.
  void declare(CLI::App& verb, bool has_nccl);
  /// Puts them into the request of a verb. Fails on a --timeout that is no time.
  template <typename Request>
  Result<void> add_to(Request& request) const {
    request.transport = chosen_transport();
    request.mpi = mpi;
    request.transports = transports;
    request.progress = chosen_progress();
    return parsed_timeout().map([&](std::chrono::nanoseconds longest) { request.timeout = longest; });
  }

 private:
  Transport chosen_transport() const;
  CallProgress chosen_progress() const;
  Result<std::chrono::nanoseconds> parsed_timeout() const;
};

}  // namespace commlens
