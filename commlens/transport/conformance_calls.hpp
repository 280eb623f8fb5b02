#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "commlens/transport/call_check.hpp"
#include "commlens/transport/conformance.hpp"

/// Test support: any call, with its buffers and what they must hold after it.
namespace commlens::conformance {

enum class Shape : std::uint8_t {
  all_reduce,
  all_reduce_in_place,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  broadcast_in_place,
  reduce,
  reduce_in_place,
  barrier,
  gather,
  scatter,
  all_gather_in_parts,
  reduce_scatter_in_parts,
  all_to_all_in_parts,
  gather_in_parts,
  scatter_in_parts
};
constexpr std::array k_shapes{Shape::all_reduce,
                              Shape::all_reduce_in_place,
                              Shape::all_gather,
                              Shape::reduce_scatter,
                              Shape::all_to_all,
                              Shape::broadcast,
                              Shape::broadcast_in_place,
                              Shape::reduce,
                              Shape::reduce_in_place,
                              Shape::barrier,
                              Shape::gather,
                              Shape::scatter,
                              Shape::all_gather_in_parts,
                              Shape::reduce_scatter_in_parts,
                              Shape::all_to_all_in_parts,
                              Shape::gather_in_parts,
                              Shape::scatter_in_parts};

constexpr CommKind kind_of(Shape shape) {
  switch (shape) {
    case Shape::all_reduce:
    case Shape::all_reduce_in_place:
      return CommKind::all_reduce;
    case Shape::all_gather:
    case Shape::all_gather_in_parts:
      return CommKind::all_gather;
    case Shape::reduce_scatter:
    case Shape::reduce_scatter_in_parts:
      return CommKind::reduce_scatter;
    case Shape::all_to_all:
    case Shape::all_to_all_in_parts:
      return CommKind::all_to_all;
    case Shape::broadcast:
    case Shape::broadcast_in_place:
      return CommKind::broadcast;
    case Shape::reduce:
    case Shape::reduce_in_place:
      return CommKind::reduce;
    case Shape::barrier:
      return CommKind::barrier;
    case Shape::gather:
    case Shape::gather_in_parts:
    case Shape::scatter:
    case Shape::scatter_in_parts:
      break;
  }
  return CommKind::other;
}

/// How a rank makes a call.
enum class Way : std::uint8_t { run, wait, poll };
constexpr std::array k_ways{Way::run, Way::wait, Way::poll};

inline void await(Work& work, Way way) {
  while (way == Way::poll && !work.is_complete()) {
    std::this_thread::yield();
  }
  work.wait();
}

inline void make(Communicator& group, const CommCall& call, Way way) {
  if (way == Way::run) {
    group.run(call);
  } else {
    await(*group.start(call), way);
  }
}

/// Inputs whose average is exact in every type, also where ranks are added in pairs: 1 to 13, and one more or
/// one less on two ranks each.
inline Values given_for_average(std::int64_t rank, std::int64_t ranks, std::int64_t first,
                                std::int64_t count) {
  const bool is_single = ranks % 2 == 1 && rank == ranks - 1;
  const std::int64_t sign = rank % 2 == 0 ? 1 : -1;
  return repeated(first, count,
                  [&](std::int64_t index) { return given(0, index) + 1 + (is_single ? 0 : sign); });
}

/// The part of `rank` in calls of unequal parts: some are 0.
constexpr std::int64_t part_size(std::int64_t rank, std::int64_t count) {
  return count * ((rank + count) % 3) + rank % 2;
}

/// What `from` sends to `to` in an all_to_all of unequal parts.
constexpr std::int64_t part_size(std::int64_t from, std::int64_t to, std::int64_t count) {
  return count * ((from + 2 * to + count) % 3) + (from < to ? 1 : 0);
}

/// A call of one rank. `count` is the size of its smaller side, or what its parts are made from.
class TestCall {
 public:
  struct Options {
    Shape shape = Shape::all_reduce;
    DType type = DType::fp32;
    std::int64_t count = 0;
    std::int64_t root = 0;
    ReduceOp reduction = ReduceOp::sum;
  };

  TestCall(const Communicator& group, const Target& target, const Options& options)
      : options_(options), self_(group.rank().value), ranks_(group.size()) {
    const Values input = inputs();
    call_ = {.kind = kind_of(options.shape),
             .dtype = options.type,
             .reduction = options.reduction,
             .peer = GroupRank{options.root}};
    input_ = std::make_unique<Buffer>(target, options.type, input);
    const Values expected = expected_output();
    output_ = std::make_unique<Buffer>(target, options.type, static_cast<std::int64_t>(expected.size()));
    set_parts();
    call_.input = input_->elements();
    call_.output = output_->elements();
    call_.input_buffer = input_->memory();
    const bool in_place = is_in_place();
    call_.output_buffer = in_place ? input_->memory() : output_->memory();
    if (call_.kind == CommKind::other) {
      const bool gathers = options.shape == Shape::gather || options.shape == Shape::gather_in_parts;
      call_.other = gathers ? OtherCall::gather : OtherCall::scatter;
    }
  }

  const CommCall& call() const { return call_; }

  void expect() const {
    const std::string what = fmt::format("{} over {} ranks", to_text(call_), ranks_);
    const bool is_reduce = call_.kind == CommKind::reduce;
    if (is_in_place()) {
      if (!is_reduce || self_ == options_.root) {
        input_->expect(expected_output(), what + " in place");
      }
      return;
    }
    input_->expect(inputs(), what + ", its input");
    if (!is_reduce || self_ == options_.root) {
      output_->expect(expected_output(), what);
    }
  }

 private:
  bool is_in_place() const {
    return options_.shape == Shape::all_reduce_in_place || options_.shape == Shape::broadcast_in_place ||
           options_.shape == Shape::reduce_in_place;
  }

  Values input_of(std::int64_t rank, std::int64_t first, std::int64_t count) const {
    return options_.reduction == ReduceOp::avg ? given_for_average(rank, ranks_, first, count)
                                               : given(rank, first, count);
  }

  Values combined_inputs(std::int64_t first, std::int64_t count) const {
    return options_.reduction == ReduceOp::avg
               ? repeated(first, count, [](std::int64_t index) { return given(0, index) + 1; })
               : combined(options_.reduction, ranks_, first, count);
  }

  /// The sum of size(rank) over the ranks before `end`.
  template <typename Size>
  static std::int64_t before(std::int64_t end, const Size& size) {
    std::int64_t sum = 0;
    for (std::int64_t rank = 0; rank < end; ++rank) {
      sum += size(rank);
    }
    return sum;
  }

  /// Parts of the inputs of all ranks, one after the other.
  template <typename First, typename Size>
  Values of_all(const First& first, const Size& size) const {
    Values values;
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      const Values part = input_of(rank, first(rank), size(rank));
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  }

  Values inputs() const {
    const std::int64_t count = options_.count;
    switch (options_.shape) {
      case Shape::reduce_scatter:
      case Shape::all_to_all:
        return input_of(self_, 0, count * ranks_);
      case Shape::barrier:
        return {};
      case Shape::scatter:
        return input_of(self_, 0, self_ == options_.root ? count * ranks_ : 0);
      case Shape::all_gather_in_parts:
      case Shape::gather_in_parts:
        return input_of(self_, 0, part_size(self_, count));
      case Shape::scatter_in_parts:
        return self_ == options_.root
                   ? input_of(self_, 0, before(ranks_, [&](auto rank) { return part_size(rank, count); }))
                   : Values{};
      case Shape::reduce_scatter_in_parts:
        return input_of(self_, 0, before(ranks_, [&](auto rank) { return part_size(rank, count); }));
      case Shape::all_to_all_in_parts:
        return input_of(self_, 0, before(ranks_, [&](auto to) { return part_size(self_, to, count); }));
      default:
        return input_of(self_, 0, count);
    }
  }

  Values expected_output() const {
    const std::int64_t count = options_.count;
    const auto none = [](auto) { return std::int64_t{0}; };
    const auto equal = [&](auto) { return count; };
    const auto unequal = [&](auto rank) { return part_size(rank, count); };
    switch (options_.shape) {
      case Shape::all_reduce:
      case Shape::all_reduce_in_place:
      case Shape::reduce:
      case Shape::reduce_in_place:
        return combined_inputs(0, count);
      case Shape::broadcast:
      case Shape::broadcast_in_place:
        return input_of(options_.root, 0, count);
      case Shape::all_gather:
        return of_all(none, equal);
      case Shape::gather:
        return self_ == options_.root ? of_all(none, equal) : Values{};
      case Shape::scatter:
        return input_of(options_.root, self_ * count, count);
      case Shape::reduce_scatter:
        return combined_inputs(self_ * count, count);
      case Shape::all_to_all:
        return of_all([&](auto) { return self_ * count; }, equal);
      case Shape::all_gather_in_parts:
        return of_all(none, unequal);
      case Shape::gather_in_parts:
        return self_ == options_.root ? of_all(none, unequal) : Values{};
      case Shape::scatter_in_parts:
        return input_of(options_.root, before(self_, unequal), unequal(self_));
      case Shape::reduce_scatter_in_parts:
        return combined_inputs(before(self_, unequal), unequal(self_));
      case Shape::all_to_all_in_parts:
        return of_all(
            [&](auto from) { return before(self_, [&](auto to) { return part_size(from, to, count); }); },
            [&](auto from) { return part_size(from, self_, count); });
      case Shape::barrier:
        break;
    }
    return {};
  }

  void set_parts() {
    const std::int64_t count = options_.count;
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      if (options_.shape == Shape::all_to_all_in_parts) {
        input_parts_.push_back({part_size(self_, rank, count)});
        output_parts_.push_back({part_size(rank, self_, count)});
      } else if (options_.shape == Shape::reduce_scatter_in_parts ||
                 options_.shape == Shape::scatter_in_parts) {
        input_parts_.push_back({part_size(rank, count)});
      } else if (options_.shape == Shape::all_gather_in_parts || options_.shape == Shape::gather_in_parts) {
        output_parts_.push_back({part_size(rank, count)});
      }
    }
    call_.input_parts = input_parts_;
    call_.output_parts = output_parts_;
  }

  Options options_;
  std::int64_t self_;
  std::int64_t ranks_;
  CommCall call_;
  std::vector<Elements> input_parts_;
  std::vector<Elements> output_parts_;
  std::unique_ptr<Buffer> input_;
  std::unique_ptr<Buffer> output_;
};

inline void make_and_expect(Communicator& group, const Target& target, const TestCall::Options& options,
                            Way way = Way::run) {
  const TestCall made(group, target, options);
  make(group, made.call(), way);
  made.expect();
}

}  // namespace commlens::conformance
