#pragma once
#include <string>

#include "commlens/frameworks/overrides.hpp"

namespace commlens::study {

/// A job as the command line asks for it: of a built-in model, or of a file that the study writes.
struct Asked {
  std::string config;     // "mixtral-8x7b", or the name of the file
  std::string framework;  // empty: the configuration's own
  Overrides overrides;
  std::string text = {};  // of the file; empty: a built-in model

  /// The flags behind the verb: "mixtral-8x7b --framework megatron --dp 8".
  std::string arguments() const;
  /// "commlens predict jobs/ring.args".
  std::string command() const { return "commlens predict " + arguments(); }
};

/// Where the study's files of jobs are, below its directory.
constexpr const char* k_jobs_place = "jobs";

}  // namespace commlens::study
