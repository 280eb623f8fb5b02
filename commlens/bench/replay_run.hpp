#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "commlens/bench/replay_plan.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens::bench {

/// What decides when a call is issued, besides the end of what the rank waits for.
enum class ReplayPace : std::uint8_t {
  gaps,          // closed loop: as long after the rank's last issue or wait as in the trace
  back_to_back,  // nothing
  timed          // open loop: not before the time of the trace
};

/// What a rank takes for time. Recorded times are those of Clock::of_process() whatever it is.
struct ReplayClock {
  std::function<std::int64_t()> now_ns;
  std::function<void(std::int64_t end_ns)> stay_until;  // returns then, or at once if that is over
};

struct PlayOptions {
  ReplayPace pace = ReplayPace::gaps;
  double scale_compute = 1;  // of gaps, and of the times of the trace
  bool sleeps = false;       // in a gap, instead of keeping a core busy
  bool yields = false;       // a busy rank lets others have its core: more ranks than cores
  std::optional<ReplayClock> clock = std::nullopt;  // absent: Clock::of_process()
};

/// One rank of a replay: its communicators and its buffers, ready for any number of runs. Collective over
/// `world`, which outlives it, as does the plan.
class ReplayRank {
 public:
  ReplayRank(const ReplayPlan& plan, Communicator& world);
  ~ReplayRank();
  ReplayRank(const ReplayRank&) = delete;
  ReplayRank& operator=(const ReplayRank&) = delete;

  /// Makes the calls. All ranks begin together, at a barrier of the world, and end at another; returns the
  /// time between these.
  std::chrono::nanoseconds play(const PlayOptions& options);
  /// The same; the calls are recorded.
  std::chrono::nanoseconds play(const PlayOptions& options, Recorder& recorder);

 private:
  std::chrono::nanoseconds make_steps(const PlayOptions& options, const std::vector<Communicator*>& groups,
                                      Recorder* recorder);

  const ReplayPlan& plan_;
  const RankProgram& program_;
  Communicator& world_;
  std::vector<std::unique_ptr<Communicator>> groups_;  // of the plan; null where the rank is no member
  std::vector<std::byte> pool_;
};

}  // namespace commlens::bench
