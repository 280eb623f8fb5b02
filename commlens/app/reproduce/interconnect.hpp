#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "commlens/app/bench_launch.hpp"
#include "commlens/base/result.hpp"
#include "commlens/frameworks/overrides.hpp"

namespace commlens::study {

/// Messages of a model that are to be timed between threads of this machine.
struct MessageBench {
  std::string panel;
  std::string title;  // "ZeRO-1 on 2 ranks"
  std::string framework;
  Overrides overrides;
  std::chrono::milliseconds time{200};  // of a row
  double expected_s = 3;                // for the remaining time that is shown
};

/// What was timed.
struct MeasuredMessages {
  std::string panel;
  std::string title;
  std::string command;  // that repeats it
  BenchRun run;
};

/// 19M under ZeRO-1 and 3, two tensor ranks and two stages: seconds each, on two ranks.
std::vector<MessageBench> quick_benches();
/// The same for longer, data parallelism on four ranks.
std::vector<MessageBench> full_benches();

/// Fails where the machine cannot.
Result<MeasuredMessages> measured(const MessageBench& bench, const std::function<bool()>& stop_requested);

/// The command line of it.
std::string command_of(const MessageBench& bench);

}  // namespace commlens::study
