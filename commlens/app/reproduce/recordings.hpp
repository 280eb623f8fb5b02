#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/base/result.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/model/job.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::study {

/// A training of this machine: what rank 0 sent in its last iteration, and how fast it was.
struct Recording {
  std::string name;     // "zero3"
  std::string title;    // "19M-like, ZeRO-3 on 8 ranks"
  std::string command;  // that repeats it
  Job job;
  Trace trace;
  std::int64_t iterations = 0;
  std::int64_t calls = 0;        // of all ranks
  std::int64_t equal_calls = 0;  // of these, as predicted
  double seconds = 0;            // of an iteration after the first, the mean
  double fastest_s = 0;          // of these
  double slowest_s = 0;
  double flops_per_s = 0;  // of a rank
};

/// A training that is to be made.
struct Training {
  std::string name;
  std::string title;
  std::string model;
  Overrides overrides;
  std::int64_t iterations = 3;
  double expected_s = 1;  // for the remaining time that is shown
};

/// Those of a quick reproduction, of seconds each: 19M with fewer and narrower layers and a small vocabulary.
std::vector<Training> quick_trainings();
/// Those of a full one: 19M and 125M themselves on 8 ranks, with short sequences, then the quick ones of
/// sequence lengths with more layers.
std::vector<Training> full_trainings();

/// Trains, in the directory `where`. Fails where the machine cannot: no LibTorch, too little memory.
Result<Recording> recorded(const Training& training, const std::string& where,
                           const std::function<bool()>& stop_requested);

/// The command line of a training.
std::string command_of(const Training& training);

}  // namespace commlens::study
