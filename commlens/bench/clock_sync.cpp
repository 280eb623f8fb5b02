#include "commlens/bench/clock_sync.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <system_error>

#include <unistd.h>

#include "commlens/base/file.hpp"

namespace commlens::bench {
namespace {

constexpr int k_questions = 20;  // of which the fastest counts

/// A number of what this process's monotonic clock is: the boot of the kernel, and the time namespace.
std::int64_t clock_identity() {
  constexpr std::int64_t k_longest_boot_id = 4096;
  const Result<std::string> boot = read_text_file("/proc/sys/kernel/random/boot_id", k_longest_boot_id);
  std::error_code unreadable;
  const std::string space = std::filesystem::read_symlink("/proc/self/ns/time", unreadable).string();
  // Without a boot id nothing shows that two processes read the same clock; a process does with itself.
  const std::string text = (boot ? *boot : std::to_string(getpid())) + space;
  return static_cast<std::int64_t>(std::hash<std::string>{}(text) >> 1U);
}

std::int64_t largest(Communicator& world, std::int64_t value) {
  world.run({.kind = CommKind::all_reduce,
             .dtype = DType::int64,
             .reduction = ReduceOp::max,
             .input_buffer = &value,
             .output_buffer = &value,
             .input = {1},
             .output = {1}});
  return value;
}

void send_to(Communicator& world, std::int64_t to, std::int64_t value) {
  world.run(
      {.kind = CommKind::send, .dtype = DType::int64, .input_buffer = &value, .input = {1}, .peer = {to}});
}

std::int64_t received_from(Communicator& world, std::int64_t from) {
  std::int64_t value = 0;
  world.run({.kind = CommKind::recv,
             .dtype = DType::int64,
             .output_buffer = &value,
             .output = {1},
             .peer = {from}});
  return value;
}

/// The offset to `from`'s clock, and with its own offset that to the first rank's.
ClockOffset asked(Communicator& world, std::int64_t from, const std::function<std::int64_t()>& clock) {
  ClockOffset best{.offset_ns = 0, .error_ns = std::numeric_limits<std::int64_t>::max()};
  for (int question = 0; question < k_questions; ++question) {
    const std::int64_t before = clock();
    send_to(world, from, before);
    const std::int64_t theirs = received_from(world, from);
    const std::int64_t after = clock();
    const std::int64_t error = (after - before + 1) / 2;
    if (error < best.error_ns) {
      best = {theirs - before - (after - before) / 2, error};
    }
  }
  best.offset_ns += received_from(world, from);
  best.error_ns += received_from(world, from);
  return best;
}

void answer(Communicator& world, std::int64_t to, const ClockOffset& own,
            const std::function<std::int64_t()>& clock) {
  for (int question = 0; question < k_questions; ++question) {
    received_from(world, to);
    send_to(world, to, clock());
  }
  send_to(world, to, own.offset_ns);
  send_to(world, to, own.error_ns);
}

}  // namespace

std::int64_t monotonic_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool share_a_clock(Communicator& world) {
  const std::int64_t own = clock_identity();
  const std::int64_t highest = largest(world, own);
  const std::int64_t lowest = -largest(world, -own);
  return highest == lowest;
}

ClockOffset measured_offset(Communicator& world, const std::function<std::int64_t()>& clock) {
  const std::int64_t own = world.rank().value;
  const std::int64_t ranks = world.size();
  std::int64_t step = 1;
  while (step < ranks) {
    step *= 2;
  }
  ClockOffset offset;
  // Those that know are the multiples of 2 x step; each answers the one `step` above it.
  for (step /= 2; step >= 1; step /= 2) {
    if (own % (2 * step) == 0 && own + step < ranks) {
      answer(world, own + step, offset, clock);
    } else if (own % (2 * step) == step) {
      offset = asked(world, own - step, clock);
    }
  }
  return offset;
}

std::int64_t ClockDrift::corrected(std::int64_t own_ns) const {
  const std::int64_t length = last_at_ns - first_at_ns;
  if (length <= 0) {
    return own_ns + first.offset_ns;
  }
  const double share = static_cast<double>(own_ns - first_at_ns) / static_cast<double>(length);
  const auto change = static_cast<double>(last.offset_ns - first.offset_ns);
  return own_ns + first.offset_ns + static_cast<std::int64_t>(share * change);
}

}  // namespace commlens::bench
