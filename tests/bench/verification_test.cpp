// Wrong results that other benchmarks pass are found, for every op and element type.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/bench/bench_case.hpp"
#include "commlens/bench/pattern.hpp"
#include "commlens/transport/thread_ranks.hpp"
#include "tests/bench/fault_transport.hpp"

namespace commlens {
namespace {

using bench::BenchCase;
using bench::BenchOp;

constexpr std::int64_t k_block = 997;  // elements of a part; more than the shifts

const std::vector<DType>& combined_types() {
  static const std::vector<DType> types = {DType::fp64,  DType::fp32,  DType::fp16, DType::bf16, DType::int64,
                                           DType::int32, DType::int16, DType::int8, DType::uint8};
  return types;
}

const std::vector<DType>& moved_types() {
  static const std::vector<DType> types = [] {
    std::vector<DType> all = combined_types();
    all.insert(all.end(), {DType::fp8, DType::boolean});
    return all;
  }();
  return types;
}

/// Calls `check` with every case of three ranks, or two where it is of pairs.
void for_each_case(const std::function<void(const BenchCase&)>& check) {
  for (const BenchOp op : bench::all_bench_ops()) {
    if (op == BenchOp::barrier) {
      continue;
    }
    for (const DType type : bench::combines(op) ? combined_types() : moved_types()) {
      const std::int64_t ranks = bench::is_of_pairs(op) ? 2 : 3;
      BenchCase timed{.op = op, .dtype = type, .message = {k_block * ranks}, .ranks = ranks};
      SCOPED_TRACE(fmt::format("{} of {}", name_of(op), name_of(type)));
      check(timed);
      if (bench::may_be_in_place(op)) {
        timed.in_place = true;
        SCOPED_TRACE("in place");
        check(timed);
      }
    }
  }
}

using FaultsOf = std::function<faults::Faults(std::int64_t rank, std::int64_t iteration)>;

/// Wrong elements of two calls on all ranks.
std::int64_t found_in(const BenchCase& timed, const FaultsOf& faults_of) {
  std::vector<std::int64_t> wrong(static_cast<std::size_t>(timed.ranks));
  run_thread_ranks(timed.ranks, [&](const std::unique_ptr<Communicator>& world) {
    const std::int64_t rank = world->rank().value;
    bench::Arena arena(bench::arena_bytes(timed, rank), {});
    for (std::int64_t iteration = 0; iteration < 2; ++iteration) {
      const std::unique_ptr<Communicator> faulty =
          faults::faulty(world->split(0, rank), faults_of(rank, iteration));
      bench::CaseCalls calls(timed, *faulty, arena);
      wrong[static_cast<std::size_t>(rank)] += calls.verified(iteration).elements;
    }
  });
  return std::accumulate(wrong.begin(), wrong.end(), std::int64_t{0});
}

using Elementwise = std::span<std::byte>;
using Earlier = std::span<const std::byte>;

/// Every case is found to be wrong if `spoils` changes outputs; it is called where a call has an output.
void expect_found(const std::function<void(const CommCall&, Elementwise, Earlier)>& spoils) {
  for_each_case([&](const BenchCase& timed) {
    const faults::Faults faults{.after = [&](const CommCall& call, Elementwise output, Earlier earlier) {
      if (!output.empty()) {
        spoils(call, output, earlier);
      }
    }};
    EXPECT_GT(found_in(timed, [&](std::int64_t, std::int64_t) { return faults; }), 0);
  });
}

TEST(Verification, FindsNothingWrongInResultsThatAreRight) {
  for_each_case([](const BenchCase& timed) {
    EXPECT_EQ(found_in(timed, [](std::int64_t, std::int64_t) { return faults::Faults(); }), 0);
  });
}

// Of exchanged inputs the sum is the same, and right; there, rank 0 gives what rank 1 gives.
TEST(Verification, FindsDataOfAnotherRank) {
  for_each_case([](const BenchCase& timed) {
    const bool has_parts_of_all = !bench::combines(timed.op) && bench::verified_parts(timed, 0).size() == 3;
    std::vector<std::byte> others;
    const auto faults_of = [&](std::int64_t rank, std::int64_t iteration) {
      faults::Faults faults;
      if (has_parts_of_all) {
        faults.after = [&, rank](const CommCall& call, Elementwise output, Earlier) {
          const auto parts = bench::verified_parts(timed, rank);
          const auto width = static_cast<std::size_t>(size_of(call.dtype));
          if (parts.size() == 3) {  // the data of ranks 0 and 1, where both have a part
            const auto count = static_cast<std::size_t>(std::min(parts[0].count, parts[1].count)) * width;
            std::swap_ranges(&output[static_cast<std::size_t>(parts[0].at) * width],
                             &output[static_cast<std::size_t>(parts[0].at) * width] + count,
                             &output[static_cast<std::size_t>(parts[1].at) * width]);
          }
        };
      } else if (rank == 0) {
        faults.before = [&, iteration](CommCall& call) {
          others.resize(static_cast<std::size_t>((call.input * call.dtype).value));
          bench::fill({timed.dtype, timed.ranks, iteration, bench::combines(timed.op)}, 1, 0, others);
          call.input_buffer = others.data();
        };
      }
      return faults;
    };
    EXPECT_GT(found_in(timed, faults_of), 0);
  });
}

TEST(Verification, FindsShiftedBlocks) {
  for (const std::size_t shift : {251, 100}) {
    SCOPED_TRACE(shift);
    expect_found([&](const CommCall& call, Elementwise output, Earlier) {
      const std::size_t bytes = shift * static_cast<std::size_t>(size_of(call.dtype));
      if (output.size() > 2 * bytes) {
        std::memmove(output.data(), output.data() + bytes, bytes);
      }
    });
  }
}

/// Adds one half to an element; of types that have no half, the smallest difference.
void add_a_half(DType type, Elementwise element) {
  const auto add = [&]<typename Number>(Number) {
    Number value{};
    std::memcpy(&value, element.data(), sizeof value);
    value += Number{0.5};
    std::memcpy(element.data(), &value, sizeof value);
  };
  if (type == DType::fp32) {
    add(float{});
  } else if (type == DType::fp64) {
    add(double{});
  } else {
    element[0] ^= std::byte{1};
  }
}

TEST(Verification, FindsOneNumberThatIsAHalfOff) {
  expect_found([](const CommCall& call, Elementwise output, Earlier) {
    const auto width = static_cast<std::size_t>(size_of(call.dtype));
    add_a_half(call.dtype, output.subspan(output.size() / width / 2 * width, width));
  });
}

TEST(Verification, FindsOneElementThatNothingWasWrittenTo) {
  expect_found([](const CommCall& call, Elementwise output, Earlier earlier) {
    const auto width = static_cast<std::size_t>(size_of(call.dtype));
    std::memcpy(&output[output.size() - width], &earlier[output.size() - width], width);
  });
}

TEST(Verification, FindsTheResultOfTheCallBefore) {
  for_each_case([](const BenchCase& timed) {
    std::array<std::map<std::size_t, std::vector<std::byte>>, 3> before;  // of each rank, by call
    const auto faults_of = [&](std::int64_t rank, std::int64_t iteration) {
      auto number = std::make_shared<std::size_t>(0);
      return faults::Faults{
          .after = [&, rank, iteration, number](const CommCall&, Elementwise output, Earlier) {
            std::vector<std::byte>& last = before[static_cast<std::size_t>(rank)][(*number)++];
            if (iteration == 0) {
              last.assign(output.begin(), output.end());
            } else {
              std::copy(last.begin(), last.end(), output.begin());
            }
          }};
    };
    EXPECT_GT(found_in(timed, faults_of), 0);
  });
}

}  // namespace
}  // namespace commlens
