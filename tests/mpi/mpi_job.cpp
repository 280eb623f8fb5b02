// One rank of a small MPI job that a ctest starts: mpi_job MODE [LIBRARY]. Exit 0: as expected; 1: a wrong
// result; 2: no MPI; 3: the rank failed.
#include <bit>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "commlens/transport/call_watch.hpp"
#include "commlens/transport/mpi_world.hpp"

namespace {

using namespace commlens;  // NOLINT(google-build-using-namespace): a program, not a header

constexpr int k_calls_before_failure = 20;

/// One number added over all ranks; the whole job waits for the slowest.
std::int32_t sum_of_all(Communicator& world, std::int32_t value) {
  std::int32_t sum = 0;
  world.run({.kind = CommKind::all_reduce,
             .dtype = DType::int32,
             .input_buffer = &value,
             .output_buffer = &sum,
             .input = {1},
             .output = {1}});
  return sum;
}

bool is_last(const Communicator& world) { return world.rank().value == world.size() - 1; }

/// The last rank does `fail` after some calls; the others go on calling, and must not get an answer.
template <typename Fail>
int fail_midway(std::unique_ptr<Communicator> world, const Fail& fail) {
  for (int call = 0; call < k_calls_before_failure; ++call) {
    sum_of_all(*world, 1);
  }
  if (is_last(*world)) {
    return fail(std::move(world));
  }
  sum_of_all(*world, 1);
  fmt::print(stderr, "rank {} got an answer of a rank that is gone\n", world->rank().value);
  return 1;
}

int killed(std::unique_ptr<Communicator> /*world*/) { return std::raise(SIGKILL); }

int aborted(std::unique_ptr<Communicator> world) {
  world->abort("injected failure");
  return 1;
}

/// Fails while this thread waits for a message without a sender.
int aborted_by_another_thread(std::unique_ptr<Communicator> world) {
  std::latch waiting(1);
  std::thread other([&] {
    waiting.wait();
    world->abort("injected failure");
  });
  std::int32_t message = 0;
  const auto work = world->start({.kind = CommKind::recv,
                                  .dtype = DType::int32,
                                  .output_buffer = &message,
                                  .output = {1},
                                  .peer = GroupRank{0}});
  waiting.count_down();
  work->wait();
  other.join();
  return 1;
}

/// As main does it: the exception leaves the owner of the communicator, and the exit code is 3.
int left_by_exception(std::unique_ptr<Communicator> world) {
  try {
    const std::unique_ptr<Communicator> owner = std::move(world);
    throw SystemError("injected failure");
  } catch (const SystemError& error) {
    fmt::print(stderr, "rank left: {}\n", error.what());
    return 3;
  }
}

/// The last rank stops working; the others wait for it, and the watch ends the job.
int stalled(std::unique_ptr<Communicator> own) {
  const auto watch = CallWatch::make(CallBoard::of_processes(*own), {.timeout = std::chrono::seconds(1)});
  return fail_midway(watch->watched(std::move(own)), [](std::unique_ptr<Communicator> /*world*/) {
    std::this_thread::sleep_for(std::chrono::hours(1));
    return 1;
  });
}

int differs(std::string_view what, std::uint16_t left, std::uint16_t right, std::uint16_t got,
            std::uint16_t want) {
  fmt::print(stderr, "{} of {:#06x} and {:#06x} is {:#06x} instead of {:#06x}\n", what, left, right, got,
             want);
  return 1;
}

struct HalfSum {
  std::uint16_t left, right, sum;
};

/// Two ranks combine the pairs; the sums are worked out by hand.
int check_sums(Communicator& world, DType type, const std::vector<HalfSum>& cases) {
  for (const auto& [left, right, want] : cases) {
    const std::uint16_t mine = world.rank().value == 0 ? left : right;
    std::uint16_t got = 0;
    world.run({.kind = CommKind::all_reduce,
               .dtype = type,
               .input_buffer = &mine,
               .output_buffer = &got,
               .input = {1},
               .output = {1}});
    if (got != want) {
      return differs(name_of(type), left, right, got, want);
    }
  }
  return 0;
}

/// Every number plus zero is itself, and the greater one of a number and the lowest of all is itself.
int check_every_number(Communicator& world, DType type, std::uint16_t infinity) {
  constexpr std::size_t k_numbers = 65536;
  for (const ReduceOp reduction : {ReduceOp::sum, ReduceOp::max}) {
    const std::uint16_t neutral = reduction == ReduceOp::sum ? 0 : infinity | 0x8000U;
    std::vector<std::uint16_t> mine(k_numbers, neutral);
    for (std::size_t i = 0; i < k_numbers && world.rank().value == 0; ++i) {
      mine[i] = static_cast<std::uint16_t>(i);
    }
    std::vector<std::uint16_t> got(k_numbers);
    world.run({.kind = CommKind::all_reduce,
               .dtype = type,
               .reduction = reduction,
               .input_buffer = mine.data(),
               .output_buffer = got.data(),
               .input = {k_numbers},
               .output = {k_numbers}});
    for (std::size_t i = 0; i < k_numbers; ++i) {
      const auto number = static_cast<std::uint16_t>(i);
      const bool is_nan = (number & 0x7FFFU) > infinity;
      const bool is_zero = (number & 0x7FFFU) == 0;  // -0 + 0 is 0
      if (!is_nan && !is_zero && got[i] != number) {
        return differs(name_of(type), number, neutral, got[i], number);
      }
      if (reduction == ReduceOp::sum && is_nan && (got[i] & 0x7FFFU) <= infinity) {
        return differs(name_of(type), number, neutral, got[i], number);
      }
    }
  }
  return 0;
}

/// 200 + 100 = 300 = 44 modulo 256, as with every other transport.
int check_that_bytes_wrap_around(Communicator& world) {
  std::vector<std::uint8_t> bytes(100, world.rank().value == 0 ? 200 : 100);
  world.run({.kind = CommKind::all_reduce,
             .dtype = DType::uint8,
             .input_buffer = bytes.data(),
             .output_buffer = bytes.data(),
             .input = {100},
             .output = {100}});
  return bytes == std::vector<std::uint8_t>(100, 44) ? 0 : differs("uint8", 200, 100, bytes[0], 44);
}

int small_sums(std::unique_ptr<Communicator> world) {
  const std::vector<HalfSum> fp16{
      {0x6800, 0x3C00, 0x6800},   // 2048 + 1 = 2049: halfway, to the even 2048
      {0x6800, 0x4200, 0x6802},   // 2048 + 3 = 2051: halfway, to the even 2052
      {0x7BFF, 0x4C00, 0x7C00},   // 65504 + 16 = 65520: halfway to 2^16, which is infinity
      {0x7BFF, 0x4BFF, 0x7BFF},   // just below that
      {0x0001, 0x0001, 0x0002},   // 2^-24 + 2^-24, subnormal
      {0x03FF, 0x0001, 0x0400},   // the greatest subnormal + 2^-24 = 2^-14, the lowest normal
      {0x3C00, 0xBC00, 0x0000}};  // 1 - 1
  const std::vector<HalfSum> bf16{{0x4380, 0x3F80, 0x4380},   // 256 + 1 = 257: halfway, to the even 256
                                  {0x4380, 0x4040, 0x4382},   // 256 + 3 = 259: halfway, to the even 260
                                  {0x7F7F, 0x7F7F, 0x7F80},   // twice the greatest number
                                  {0x3F80, 0xBF80, 0x0000}};  // 1 - 1
  const bool wrong =
      check_sums(*world, DType::fp16, fp16) != 0 || check_sums(*world, DType::bf16, bf16) != 0 ||
      check_every_number(*world, DType::fp16, 0x7C00) != 0 ||
      check_every_number(*world, DType::bf16, 0x7F80) != 0 || check_that_bytes_wrap_around(*world) != 0;
  return wrong ? 1 : 0;
}

/// A message that is shorter or longer than its receiver expects is an error, never a wrong number.
int wrong_size(std::unique_ptr<Communicator> world) {
  std::vector<std::int32_t> message(8, 7);
  const Elements sent{world->size() == 2 ? 4 : 8};
  if (world->rank().value == 0) {
    world->run({.kind = CommKind::send,
                .dtype = DType::int32,
                .input_buffer = message.data(),
                .input = sent,
                .peer = GroupRank{1}});
  } else if (world->rank().value == 1) {
    world->run({.kind = CommKind::recv,
                .dtype = DType::int32,
                .output_buffer = message.data(),
                .output = {6},
                .peer = GroupRank{0}});
  }
  world->barrier();
  return 0;
}

/// A call that no rank can make is refused by name, before MPI sees it.
int average_of_integers(std::unique_ptr<Communicator> world) {
  std::int32_t number = 3;
  world->run({.kind = CommKind::all_reduce,
              .dtype = DType::int32,
              .reduction = ReduceOp::avg,
              .input_buffer = &number,
              .output_buffer = &number,
              .input = {1},
              .output = {1}});
  return 0;
}

int parts_of_another_size(std::unique_ptr<Communicator> world) {
  const std::vector<Elements> parts(static_cast<std::size_t>(world->size()), Elements{2});
  std::vector<std::int32_t> numbers(64);
  world
      ->start({.kind = CommKind::all_gather,
               .dtype = DType::int32,
               .input_buffer = numbers.data(),
               .output_buffer = numbers.data() + 32,
               .input = {2},
               .output = {2 * world->size() + 1},
               .output_parts = parts})
      ->wait();
  return 0;
}

/// More than MPI counts. It is refused before anything reads or writes these sizes.
int parts_of_gigabytes(std::unique_ptr<Communicator> world) {
  constexpr std::int64_t k_part = std::int64_t{3} << 29;
  const std::vector<Elements> parts(static_cast<std::size_t>(world->size()), Elements{k_part});
  std::vector<std::uint8_t> bytes(2);
  world->run({.kind = CommKind::all_to_all,
              .dtype = DType::uint8,
              .input_buffer = bytes.data(),
              .output_buffer = bytes.data() + 1,
              .input = {k_part * world->size()},
              .output = {k_part * world->size()},
              .input_parts = parts,
              .output_parts = parts});
  return 0;
}

/// One all_reduce of 4 MiB in place, for a test that counts its messages.
int all_reduce_in_place(std::unique_ptr<Communicator> world, bool started) {
  constexpr std::int64_t k_count = 1 << 20;
  std::vector<float> buffer(k_count, 1.0F);
  const CommCall call{.kind = CommKind::all_reduce,
                      .dtype = DType::fp32,
                      .input_buffer = buffer.data(),
                      .output_buffer = buffer.data(),
                      .input = {k_count},
                      .output = {k_count}};
  if (started) {
    world->start(call)->wait();
  } else {
    world->run(call);
  }
  return buffer == std::vector<float>(k_count, static_cast<float>(world->size())) ? 0 : 1;
}

/// A call that no rank waits for, and that no rank progresses by polling, completes in the end.
int completed_in_background(std::unique_ptr<Communicator> world) {
  constexpr std::int64_t k_count = 1 << 18;
  std::vector<float> buffer(k_count, 1.0F);
  const std::unique_ptr<Work> work = world->start({.kind = CommKind::all_reduce,
                                                   .dtype = DType::fp32,
                                                   .input_buffer = buffer.data(),
                                                   .output_buffer = buffer.data(),
                                                   .input = {k_count},
                                                   .output = {k_count}});
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!work->is_complete()) {
    if (std::chrono::steady_clock::now() > end) {
      fmt::print(stderr, "not complete after 30 s\n");
      std::_Exit(1);  // nothing else ends its thread
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return buffer == std::vector<float>(k_count, static_cast<float>(world->size())) ? 0 : 1;
}

int run_mode(std::string_view mode, std::unique_ptr<Communicator> world) {
  if (mode == "sum") {
    const std::int32_t ranks = static_cast<std::int32_t>(world->size());
    return sum_of_all(*world, 1) == ranks ? 0 : 1;
  }
  if (mode == "kill") {
    return fail_midway(std::move(world), &killed);
  }
  if (mode == "abort") {
    return fail_midway(std::move(world), &aborted);
  }
  if (mode == "abort-from-thread") {
    return fail_midway(std::move(world), &aborted_by_another_thread);
  }
  if (mode == "exception") {
    return fail_midway(std::move(world), &left_by_exception);
  }
  if (mode == "background") {
    return completed_in_background(std::move(world));
  }
  if (mode == "stall") {
    return stalled(std::move(world));
  }
  if (mode == "all-reduce-run" || mode == "all-reduce-started") {
    return all_reduce_in_place(std::move(world), mode == "all-reduce-started");
  }
  if (mode == "small-sums") {
    return small_sums(std::move(world));
  }
  if (mode == "wrong-size") {
    return wrong_size(std::move(world));
  }
  if (mode == "average-of-integers") {
    return average_of_integers(std::move(world));
  }
  if (mode == "large-parts") {
    return parts_of_gigabytes(std::move(world));
  }
  if (mode == "wrong-parts") {
    return parts_of_another_size(std::move(world));
  }
  fmt::print(stderr, "unknown mode {}\n", mode);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string_view mode = argc > 1 ? argv[1] : "";
    auto world = commlens::open_mpi_world(argc > 2 ? argv[2] : "", mode == "background");
    if (!world) {
      fmt::print(stderr, "{}\n", world.error().message);
      return 2;
    }
    const auto rank = (*world)->rank().value;
    const int status = run_mode(mode, std::move(*world));
    if (status == 1) {
      fmt::print(stderr, "rank {} has a wrong result\n", rank);
    }
    return status;
  } catch (const commlens::SystemError& error) {
    fmt::print(stderr, "failed: {}\n", error.what());
    return 3;
  }
}
