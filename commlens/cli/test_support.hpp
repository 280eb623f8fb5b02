#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "commlens/cli/command.hpp"

/// What the tests of the verbs share; no part of the product.
namespace commlens::test_support {

struct Outcome {
  ExitCode code{};
  std::string out;
  std::string err;
};

/// What a program called with these arguments would have done.
inline Outcome run_with(const std::vector<std::string>& arguments, const TextStyle& style = {}) {
  std::ostringstream out;
  std::ostringstream err;
  Console console{out, err, style, false};
  const ExitCode code = run(arguments, console);
  return {code, out.str(), err.str()};
}

}  // namespace commlens::test_support
