#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/network/max_min.hpp"
#include "commlens/network/simgrid_child.hpp"

namespace commlens {

/// The links that messages of one host to another take.
struct SimgridWay {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::vector<LinkId> links;
};

/// What a session plays on. Links have no latency: then SimGrid's CM02 shares them equally.
struct SimgridNetwork {
  std::int32_t hosts = 0;
  std::vector<double> capacities;  // bytes per second, by link
  std::vector<SimgridWay> ways;    // one for each pair of hosts
};

/// Bytes from one host to another, not faster than this. Streams of several calls between the same two hosts
/// share the sum of their limits equally.
struct SimgridStream {
  std::int32_t from = 0;
  std::int32_t to = 0;
  double bytes = 0;
  double bytes_per_second = 0;
};

/// A SimGrid whose clock the caller moves: streams begin while others are under way. It runs in a process of
/// its own, which ends with the session. Where that process does not answer, SystemError is thrown.
class SimgridSession {
 public:
  struct End {
    std::uint32_t call = 0;
    double seconds = 0;
  };

  /// Fails on more than k_simgrid_hosts hosts and where the module cannot be loaded.
  static Result<SimgridSession> start(const SimgridNetwork& network);
  SimgridSession(SimgridSession&& other) noexcept;
  SimgridSession& operator=(SimgridSession&& other) noexcept;
  ~SimgridSession();

  /// Begins a call of at least one stream at `seconds`, which the clock has reached or not passed.
  void begin(std::uint32_t call, double seconds, std::span<const SimgridStream> streams);

  /// The next call all of whose streams end until `limit`, with the clock there; else std::nullopt, with the
  /// clock at the limit.
  std::optional<End> next_end(double limit);

 private:
  explicit SimgridSession(SimgridChild child) : child_(child) {}
  [[noreturn]] void fail();
  void receive_kind();

  SimgridChild child_;
};

/// What the process is told: `streams` follow those that begin.
struct SimgridCommand {
  std::int64_t streams = -1;  // below 0: the next end
  std::int64_t call = 0;
  double seconds = 0;  // of the beginning; the limit
};
/// What it answers to a question for the next end, after k_simgrid_answer; where SimGrid refuses, at whatever
/// time, k_simgrid_reason and one line follow instead, and no more.
struct SimgridAnswer {
  std::int64_t call = -1;  // below 0: none
  double seconds = 0;
};
constexpr char k_simgrid_ready = 'k';   // its first byte
constexpr char k_simgrid_answer = 'a';  // before each answer

/// What libcommlens-simgrid.so does for a session; its entry is `commlens_simgrid_serve`.
using SimgridServe = void (*)(const SimgridNetwork& network, int socket);

}  // namespace commlens
