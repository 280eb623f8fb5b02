#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "commlens/base/embedded_file.hpp"
#include "commlens/base/units.hpp"
#include "commlens/comm/event.hpp"

namespace commlens {

/// The files of data/reproduce.
std::span<const EmbeddedFile> built_in_recordings();

}  // namespace commlens

namespace commlens::study {

/// Equal calls of rank 0 of a recorded run in one iteration (-1: initialisation).
struct GoldenCalls {
  std::int64_t iteration = 0;
  CommKind op = CommKind::other;
  std::int64_t group_size = 1;
  Bytes message;
  std::int64_t calls = 0;
};

/// What rank 0 of a run of a framework sent: the summary of a directory of tests/golden.
struct GoldenRun {
  std::string name;       // "deepspeed/z1_N19_w4_fp32"
  std::string framework;  // "DeepSpeed 0.14.0"
  std::string model;
  std::int64_t ranks = 0;
  std::vector<GoldenCalls> calls;

  /// Message and wire bytes of an op in an iteration, without groups of one rank; of one size alone unless
  /// it is 0.
  GoldenCalls total(CommKind op, std::int64_t iteration, Bytes size = {}) const;
  Bytes wire(CommKind op, std::int64_t iteration) const;
};

const std::vector<GoldenRun>& golden_runs();
/// The run of that name, which data/reproduce has.
const GoldenRun& golden_run(std::string_view name);

}  // namespace commlens::study
