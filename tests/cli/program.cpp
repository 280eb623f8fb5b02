#include "tests/cli/program.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace commlens {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& file) {
  const std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// In the child: becomes the program.
[[noreturn]] void become(const std::vector<std::string>& command, const std::vector<Variable>& environment,
                         int out, const fs::path& err) {
  const int error_file = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(error_file, STDERR_FILENO);
  for (const auto& [name, value] : environment) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  std::vector<char*> words;
  for (const std::string& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  execvp(words.front(), words.data());
  _exit(127);
}

fs::path scratch_path() {
  static int count = 0;
  return fs::temp_directory_path() /
         ("commlens-cli-" + std::to_string(getpid()) + "-" + std::to_string(count++));
}

}  // namespace

std::string Answer::last_line() const {
  const std::size_t end = out.find_last_not_of('\n');
  if (end == std::string::npos) {
    return "";
  }
  const std::size_t start = out.rfind('\n', end);
  return out.substr(start == std::string::npos ? 0 : start + 1,
                    end - (start == std::string::npos ? 0 : start + 1) + 1);
}

RunningProgram::RunningProgram(const std::vector<std::string>& command,
                               const std::vector<Variable>& environment)
    : err_(scratch_path()) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe");
  }
  process_ = fork();
  if (process_ == 0) {
    become(command, environment, ends[1], err_);
  }
  close(ends[1]);
  out_ = ends[0];
}

RunningProgram::~RunningProgram() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  if (out_ >= 0) {
    close(out_);
  }
  std::error_code ignored;
  fs::remove(err_, ignored);
}

bool RunningProgram::read_more() {
  std::array<char, 4096> block{};
  ssize_t got = 0;
  do {
    got = read(out_, block.data(), block.size());
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    text_.append(block.data(), static_cast<std::size_t>(got));
  }
  return got > 0;
}

void RunningProgram::read_lines(std::size_t lines) {
  while (static_cast<std::size_t>(std::count(text_.begin(), text_.end(), '\n')) < lines && read_more()) {
  }
}

void RunningProgram::signal(int number) const { kill(process_, number); }

Answer RunningProgram::wait() {
  while (read_more()) {
  }
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_, content_of(err_)};
}

std::string commlens_binary() {
  const char* const binary = std::getenv("COMMLENS_BINARY");
  return binary == nullptr ? "commlens" : binary;
}

Answer commlens_with(const std::vector<std::string>& arguments, const std::vector<Variable>& environment) {
  std::vector<std::string> command = {commlens_binary()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return RunningProgram(command, environment).wait();
}

bool has_trainer() { return fs::exists(fs::path(commlens_binary()).parent_path() / "libcommlens-engine.so"); }

}  // namespace commlens
