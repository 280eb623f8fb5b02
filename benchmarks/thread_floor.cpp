// Measures calls of 1 MiB between two threads against the same copies without a transport, in one process:
//   thread_floor [ROUNDS [BYTES]]
// A round makes each variant once, in an order that is drawn anew, each after three untimed calls of the
// same, so that buffers are where it leaves them; its time is from the first thread's entry to the last one's
// exit. `memcpy` is what no transport can be faster than: each thread copies to its own output what the call
// would bring there, from the buffers of the ranks, after a barrier and before another one. Each variant is
// there twice.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "commlens/transport/thread_ranks.hpp"

namespace {

using namespace commlens;  // NOLINT(google-build-using-namespace): a program, not a header

constexpr std::int64_t k_ranks = 2;

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

/// Two threads wait for each other, spinning.
class SpinBarrier {
 public:
  void wait() {
    const std::int64_t generation = generation_.load();
    if (waiting_.fetch_add(1) + 1 == k_ranks) {
      waiting_.store(0);
      generation_.fetch_add(1);
      return;
    }
    while (generation_.load(std::memory_order_acquire) == generation) {
    }
  }

 private:
  std::atomic<std::int64_t> waiting_ = 0;
  std::atomic<std::int64_t> generation_ = 0;
};

/// What the threads share: buffers of each rank, and the times of each variant's rounds.
struct FloorRun {
  std::vector<std::vector<char>> inputs;
  std::vector<std::vector<char>> outputs;
  std::vector<std::vector<std::vector<std::int64_t>>> entries;  // [rank][variant]
  std::vector<std::vector<std::vector<std::int64_t>>> exits;
  SpinBarrier barrier;
};

struct FloorVariant {
  std::string name;
  std::function<void()> call;
};

std::vector<FloorVariant> variants_of(Communicator& world, FloorRun& run, std::int64_t bytes) {
  const auto rank = static_cast<std::size_t>(world.rank().value);
  char* const input = run.inputs[rank].data();
  char* const output = run.outputs[rank].data();
  const std::int64_t part = bytes / k_ranks;
  const auto call_of = [=, &world](CommKind kind, std::int64_t sent) {
    return [=, &world] {
      world.run({.kind = kind,
                 .dtype = DType::uint8,
                 .input_buffer = input,
                 .output_buffer = output,
                 .input = {sent},
                 .output = {bytes}});
    };
  };
  // Each rank's part of the output: the start of an input, or the place of this rank in it.
  const auto copies_of = [=, &run](bool is_all_to_all) {
    return [=, &run] {
      run.barrier.wait();
      for (std::size_t at = 0; at < k_ranks; ++at) {
        const std::size_t source = (rank + at) % k_ranks;
        const char* const from =
            run.inputs[source].data() + (is_all_to_all ? static_cast<std::int64_t>(rank) * part : 0);
        std::memcpy(output + static_cast<std::int64_t>(source) * part, from, static_cast<std::size_t>(part));
      }
      run.barrier.wait();
    };
  };
  const std::vector<FloorVariant> once = {{"all_gather", call_of(CommKind::all_gather, part)},
                                          {"all_gather, memcpy", copies_of(false)},
                                          {"all_to_all", call_of(CommKind::all_to_all, bytes)},
                                          {"all_to_all, memcpy", copies_of(true)}};
  std::vector<FloorVariant> twice = once;
  for (const FloorVariant& variant : once) {
    twice.push_back({variant.name + " again", variant.call});
  }
  return twice;
}

void measure_rank(Communicator& world, FloorRun& run, std::int64_t rounds, std::int64_t bytes) {
  const auto rank = static_cast<std::size_t>(world.rank().value);
  const std::vector<FloorVariant> variants = variants_of(world, run, bytes);
  run.entries[rank].resize(variants.size());
  run.exits[rank].resize(variants.size());
  std::vector<std::size_t> order(variants.size());
  for (std::size_t variant = 0; variant < order.size(); ++variant) {
    order[variant] = variant;
  }
  std::mt19937 random(1);
  for (std::int64_t round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t variant : order) {
      for (int call = 0; call < 3; ++call) {
        variants[variant].call();
      }
      run.barrier.wait();
      run.entries[rank][variant].push_back(now_ns());
      variants[variant].call();
      run.exits[rank][variant].push_back(now_ns());
    }
  }
  if (rank == 0) {
    run.barrier.wait();
    for (std::size_t variant = 0; variant < variants.size(); ++variant) {
      std::vector<std::int64_t> spans;
      for (std::size_t round = 0; round < run.entries[0][variant].size(); ++round) {
        spans.push_back(std::max(run.exits[0][variant][round], run.exits[1][variant][round]) -
                        std::min(run.entries[0][variant][round], run.entries[1][variant][round]));
      }
      std::nth_element(spans.begin(), spans.begin() + std::ssize(spans) / 2, spans.end());
      fmt::print("{:26} {:8.1f} us\n", variants[variant].name,
                 static_cast<double>(spans[spans.size() / 2]) * 1e-3);
    }
  } else {
    run.barrier.wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t rounds = argc > 1 ? std::atoll(argv[1]) : 400;
  const std::int64_t bytes = argc > 2 ? std::atoll(argv[2]) : 1 << 20;
  FloorRun run;
  for (std::int64_t rank = 0; rank < k_ranks; ++rank) {
    run.inputs.emplace_back(static_cast<std::size_t>(bytes), 1);
    run.outputs.emplace_back(static_cast<std::size_t>(bytes), 2);
  }
  run.entries.resize(k_ranks);
  run.exits.resize(k_ranks);
  run_thread_ranks(k_ranks,
                   [&](std::unique_ptr<Communicator> world) { measure_rank(*world, run, rounds, bytes); });
  return 0;
}
