#pragma once
#include <chrono>
#include <functional>
#include <optional>
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

/// How a program runs beside the work of this one.
struct ChildWatch {
  std::string output;                    // file for what it prints
  std::function<bool()> stop_requested;  // polled; may be empty
  std::chrono::seconds limit{60};
};

/// Runs it in a process group of its own, without input, and returns its exit code (128 + the signal when one
/// ended it); std::nullopt when it was ended here, as it was asked to be or for the limit. Throws SystemError
/// when it cannot be started.
std::optional<int> run_watched(const ChildProgram& program, const ChildWatch& watch);

/// The texts as exec and posix_spawn take arguments and variables: pointers into them, the last one null.
std::vector<char*> pointers_to(std::vector<std::string>& texts);

}  // namespace commlens
