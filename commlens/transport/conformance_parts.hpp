#pragma once
#include <array>
#include <bit>
#include <cstdint>

#include "commlens/transport/conformance_calls.hpp"

/// Checks of conformance_cases.hpp: unequal parts, gather, scatter, averages.
namespace commlens::conformance {

constexpr std::array<std::int64_t, 4> k_small_counts{0, 1, 3, 255};
constexpr std::array k_types_in_every_size{DType::fp32, DType::bf16, DType::uint8};

/// Calls body(count) for some counts: all of them for a type of each width.
template <typename Body>
void for_counts(DType type, const Body& body) {
  const bool is_every = std::find(k_types_in_every_size.begin(), k_types_in_every_size.end(), type) !=
                        k_types_in_every_size.end();
  for (const std::int64_t count : k_counts) {
    if (is_every || std::find(k_small_counts.begin(), k_small_counts.end(), count) != k_small_counts.end()) {
      body(count);
    }
  }
}

inline void check_unequal_parts(Communicator& group, const Target& target) {
  for (const DType type : k_moved_types) {
    for_counts(type, [&](std::int64_t count) {
      make_and_expect(group, target, {.shape = Shape::all_gather_in_parts, .type = type, .count = count});
      make_and_expect(group, target, {.shape = Shape::all_to_all_in_parts, .type = type, .count = count});
    });
  }
  for (const DType type : target.combined) {
    for_counts(type, [&](std::int64_t count) {
      for (const ReduceOp reduction : {ReduceOp::sum, ReduceOp::max}) {
        make_and_expect(
            group, target,
            {.shape = Shape::reduce_scatter_in_parts, .type = type, .count = count, .reduction = reduction});
      }
    });
  }
}

inline void check_gather_and_scatter(Communicator& group, const Target& target) {
  for (const DType type : k_moved_types) {
    for_counts(type, [&](std::int64_t count) {
      for (std::int64_t root = 0; root < group.size(); ++root) {
        make_and_expect(group, target, {.shape = Shape::gather, .type = type, .count = count, .root = root});
        make_and_expect(group, target, {.shape = Shape::scatter, .type = type, .count = count, .root = root});
        make_and_expect(group, target,
                        {.shape = Shape::gather_in_parts, .type = type, .count = count, .root = root});
        make_and_expect(group, target,
                        {.shape = Shape::scatter_in_parts, .type = type, .count = count, .root = root});
      }
    });
  }
}

inline void check_averages(Communicator& group, const Target& target) {
  const bool is_exact = target.divides_sums || std::has_single_bit(static_cast<std::uint64_t>(group.size()));
  if (!is_exact) {
    return;
  }
  constexpr std::array k_averaged{Shape::all_reduce,     Shape::all_reduce_in_place,
                                  Shape::reduce,         Shape::reduce_in_place,
                                  Shape::reduce_scatter, Shape::reduce_scatter_in_parts};
  for (const DType type : {DType::fp64, DType::fp32, DType::fp16, DType::bf16}) {
    for (const std::int64_t count : k_counts) {
      for (const Shape shape : k_averaged) {
        const TestCall::Options options{.shape = shape,
                                        .type = type,
                                        .count = count,
                                        .root = count % group.size(),
                                        .reduction = ReduceOp::avg};
        make_and_expect(group, target, options, Way::run);
        make_and_expect(group, target, options, Way::wait);
      }
    }
  }
}

}  // namespace commlens::conformance
