#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "commlens/cli/command.hpp"

/// Shared by the tests of the verbs; not part of the product.
namespace commlens::test_support {

struct Outcome {
  ExitCode code{};
  std::string out;
  std::string err;
};

/// The outcome of a program called with these arguments.
inline Outcome run_with(const std::vector<std::string>& arguments, const TextStyle& style = {}) {
  std::ostringstream out;
  std::ostringstream err;
  Console console{out, err, style, false};
  const ExitCode code = run(arguments, console);
  return {code, out.str(), err.str()};
}

}  // namespace commlens::test_support
