// Measures how much of a call overlaps computing that starts after it, over threads or, under mpirun, over
// MPI:
//   overlap_cost (threads|mpi) (progress|none) (busy|device) [BYTES [MILLISECONDS [ROUNDS]]]
// `busy` computes on the rank's core, `device` sleeps, as a host does whose device computes. Each round does
// the four ways below once, in an order that is drawn anew; a figure is rank 0's median, from one barrier to
// the next.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "commlens/transport/mpi_world.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace {

using namespace commlens;  // NOLINT(google-build-using-namespace): a program, not a header
using Clock = std::chrono::steady_clock;

struct Setting {
  bool over_mpi = false;
  bool progress = false;
  bool busy = false;
  std::int64_t bytes = 4 << 20;
  std::int64_t milliseconds = 10;
  std::int64_t rounds = 30;
};

enum class Way : std::uint8_t { compute, call, apart, overlapped, polled };
constexpr std::array k_names{"computing alone", "the call alone", "call, then computing",
                             "computing between start and wait", "the same, asked 16 times in between"};

/// Busy work that no compiler removes.
void turn(std::int64_t times) {
  volatile double x = 1;
  for (std::int64_t i = 0; i < times; ++i) {
    x = x * 0.999999 + 1e-6;
  }
}

/// Turns of the busy loop in a millisecond.
std::int64_t measured_speed() {
  constexpr std::int64_t k_turns = 5'000'000;
  const auto start = Clock::now();
  turn(k_turns);
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return static_cast<std::int64_t>(static_cast<double>(k_turns) / ms);
}

class Ways {
 public:
  Ways(const Setting& setting, Communicator& world, std::int64_t speed)
      : setting_(setting),
        world_(world),
        speed_(speed),
        buffer_(static_cast<std::size_t>(setting.bytes) / sizeof(float), 1.0F) {
    const Elements count{static_cast<std::int64_t>(buffer_.size())};
    call_ = {.kind = CommKind::all_reduce,
             .dtype = DType::fp32,
             .reduction = ReduceOp::max,
             .input_buffer = buffer_.data(),
             .output_buffer = buffer_.data(),
             .input = count,
             .output = count};
  }

  void go(Way way) {
    if (way == Way::compute) {
      compute(1);
      return;
    }
    if (way == Way::call || way == Way::apart) {
      world_.run(call_);
      if (way == Way::apart) {
        compute(1);
      }
      return;
    }
    const std::unique_ptr<Work> work = world_.start(call_);
    const std::int64_t parts = way == Way::polled ? 16 : 1;
    for (std::int64_t part = 0; part < parts; ++part) {
      compute(parts);
      if (way == Way::polled) {
        static_cast<void>(work->is_complete());
      }
    }
    work->wait();
  }

 private:
  void compute(std::int64_t parts) {
    if (!setting_.busy) {
      std::this_thread::sleep_for(std::chrono::microseconds(setting_.milliseconds * 1000 / parts));
    } else {
      turn(speed_ * setting_.milliseconds / parts);
    }
  }

  const Setting& setting_;
  Communicator& world_;
  std::int64_t speed_;
  std::vector<float> buffer_;
  CommCall call_;
};

void measure(const Setting& setting, Communicator& world, std::int64_t speed) {
  Ways ways(setting, world, speed);
  std::array<std::vector<double>, k_names.size()> times;
  std::array<std::size_t, k_names.size()> order{0, 1, 2, 3, 4};
  std::mt19937 random(1);
  for (std::int64_t round = -2; round < setting.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t way : order) {
      world.barrier();
      const auto start = Clock::now();
      ways.go(static_cast<Way>(way));
      world.barrier();
      if (round >= 0) {
        times.at(way).push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
      }
    }
  }
  if (world.rank() != GroupRank{0}) {
    return;
  }
  for (std::size_t way = 0; way < times.size(); ++way) {
    std::sort(times.at(way).begin(), times.at(way).end());
    fmt::print("{:8.3f} ms  {}\n", times.at(way).at(times.at(way).size() / 2), k_names.at(way));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print(stderr,
               "overlap_cost (threads|mpi) (progress|none) (busy|device) [BYTES [MILLISECONDS [ROUNDS]]]\n");
    return 2;
  }
  Setting setting{.over_mpi = std::string_view(argv[1]) == "mpi",
                  .progress = std::string_view(argv[2]) == "progress",
                  .busy = std::string_view(argv[3]) == "busy"};
  std::int64_t* const numbers[] = {&setting.bytes, &setting.milliseconds, &setting.rounds};
  for (int i = 4; i < std::min(argc, 7); ++i) {
    *numbers[i - 4] = std::atoll(argv[i]);
  }
  const std::int64_t speed = measured_speed();
  if (!setting.over_mpi) {
    run_thread_ranks(2, [&](std::unique_ptr<Communicator> world) { measure(setting, *world, speed); },
                     {.assistants = setting.progress ? 1 : 0});
    return 0;
  }
  const auto world = open_mpi_world("", setting.progress);
  if (!world) {
    fmt::print(stderr, "{}\n", world.error().message);
    return 2;
  }
  measure(setting, **world, speed);
  return 0;
}
