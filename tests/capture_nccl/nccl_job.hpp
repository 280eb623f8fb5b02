#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "commlens/base/test_support.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::test {

/// A command that ran, and a directory of its own for it, removed at the end.
class NcclJob {
 public:
  /// `command`: a shell command; COMMLENS_TRACE is set to trace() unless `is_recorded` is false, and no
  /// launcher is to be seen in the environment.
  explicit NcclJob(const std::string& command, bool is_recorded = true);

  std::filesystem::path trace() const { return scratch_ / "trace"; }
  Trace read() const;

  int exit_code = -1;
  std::string out;
  std::string err;

 private:
  test_support::ScratchDirectory scratch_;
};

/// A call as the tests spell it: "rank name op dtype input output group root", and its note where it has one.
struct SeenCall {
  std::string text;
  std::string note;
  Times times;
};
std::vector<SeenCall> calls_of(const Trace& trace);

/// How often each occurs.
using Counts = std::map<std::string, int>;
Counts counted(const std::vector<SeenCall>& calls);

/// In how many communicators each list of ranks (of several) made its collectives; calls without one count as
/// one.
Counts communicators_of(const Trace& trace);

/// The path of a library that the tests record with, or of a program that they built.
std::string library(const std::string& name);
std::string program(const std::string& name);
/// commlens itself.
std::string binary();

}  // namespace commlens::test
