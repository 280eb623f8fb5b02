#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "commlens/transport/communicator.hpp"

namespace commlens::faults {

/// What a transport does wrong. Every member may be empty.
struct Faults {
  /// Called after a barrier: a rank that it keeps enters the next call late.
  std::function<void()> after_barrier;
  /// Called before a call that is no barrier is issued; may change it.
  std::function<void(CommCall&)> before;
  /// Called after such a call, before it returns, with its output and what was there before.
  std::function<void(const CommCall&, std::span<std::byte> output, std::span<const std::byte> earlier)> after;
  /// Called before and after such a call is issued, and after it was waited for, with the ranks of its group.
  std::function<void(std::int64_t ranks, const CommCall&)> issuing;
  std::function<void(std::int64_t ranks, const CommCall&)> issued;
  std::function<void(std::int64_t ranks, const CommCall&)> waited;
};

/// Decorates a communicator.
std::unique_ptr<Communicator> faulty(std::unique_ptr<Communicator> communicator, Faults faults);

void spin(std::chrono::nanoseconds time);

}  // namespace commlens::faults
