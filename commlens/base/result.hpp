#pragma once
#include <stdexcept>
#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace commlens {

/// What is wrong, where (file:line or field), and what to do, in one line.
struct Error {
  std::string message;
};

/// A value, or the error in the user's input.
template <typename T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> failure(std::string message) {
  return tl::unexpected(Error{std::move(message)});
}

/// A failure of the machine (disk full, no memory for a mapping, …); only main catches it (exit code 3).
class SystemError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace commlens
