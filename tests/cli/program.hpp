#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

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

/// A program under way; killed when this goes before it has ended.
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

/// Runs the commlens that was built beside the tests ($COMMLENS_BINARY).
Answer commlens_with(const std::vector<std::string>& arguments,
                     const std::vector<Variable>& environment = {});
std::string commlens_binary();

/// Whether it has a trainer: libcommlens-engine.so beside it.
bool has_trainer();

/// A folder of the running test, gone with it.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string path(std::string_view name) const { return (folder_ / name).string(); }
  std::string write(std::string_view name, std::string_view content) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace commlens
