#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/types.h>

#include "commlens/base/test_support.hpp"

namespace commlens {

/// How a program ended.
struct Answer {
  int code = -1;  // of its exit; 128 + the signal that ended it
  std::string out;
  std::string err;
  std::string last_line() const;  // of `out`
};

/// A variable of the environment.
using Variable = std::pair<std::string, std::string>;

/// A running program; the destructor kills it if it has not ended.
class RunningProgram {
 public:
  /// `command` is looked for in PATH.
  RunningProgram(const std::vector<std::string>& command, const std::vector<Variable>& environment);
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  /// Reads its standard output until there are `lines` lines of it, or it ends.
  void read_lines(std::size_t lines);
  void signal(int number) const;
  Answer wait();

 private:
  bool read_more();

  pid_t process_ = -1;
  int out_ = -1;
  std::filesystem::path err_;
  std::string text_;
};

/// Runs the commlens that was built with the tests ($COMMLENS_BINARY).
Answer commlens_with(const std::vector<std::string>& arguments,
                     const std::vector<Variable>& environment = {});
std::string commlens_binary();

/// Whether it has a trainer: libcommlens-engine.so beside it.
bool has_trainer();

using test_support::ScratchDirectory;

/// Tests of `commlens train`; skipped in a build without a trainer.
class TrainerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_trainer()) {
      GTEST_SKIP() << "this build has no trainer";
    }
  }

  ScratchDirectory directory_;
};

}  // namespace commlens
