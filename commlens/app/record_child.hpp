#pragma once
#include <string>
#include <vector>

namespace commlens {

/// A program to run in place of this one: its words, and variables to set ("NAME=value") besides those of
/// this process.
struct ChildProgram {
  std::vector<std::string> command;
  std::vector<std::string> variables;
};

/// Runs it with this process's standard streams, passes signals on, and returns its exit code; 128 + the
/// signal when one ended it. Throws SystemError when it cannot be started.
int run_child(const ChildProgram& program);

/// The texts as exec and posix_spawn take arguments and variables: pointers into them, the last one null.
std::vector<char*> pointers_to(std::vector<std::string>& texts);

}  // namespace commlens
