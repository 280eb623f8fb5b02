#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "commlens/transport/communicator.hpp"

/// Test support: requirements on every transport. conformance_cases.hpp lists the checks; this file and
/// conformance_calls.hpp have their building blocks. A check is run by all ranks of a group at once and
/// throws Failure on a wrong result, so that it works in threads and in processes of an MPI job.
namespace commlens::conformance {

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A transport's buffer memory (here: host memory), and the types that it can combine.
struct Target {
  std::function<void*(std::size_t bytes)> allocate = [](std::size_t bytes) { return std::malloc(bytes); };
  std::function<void(void* memory)> release = [](void* memory) { std::free(memory); };
  /// From host memory to the transport's, and back; ordered after calls that were waited for.
  std::function<void(void* to, const void* from, std::size_t bytes)> write =
      [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); };
  std::function<void(void* to, const void* from, std::size_t bytes)> read =
      [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); };
  std::vector<DType> combined{DType::fp64,  DType::fp32,  DType::fp16, DType::bf16, DType::int64,
                              DType::int32, DType::int16, DType::int8, DType::uint8};
  /// Whether it divides a sum by the number of ranks to average; NCCL multiplies each rank's by its
  /// reciprocal.
  bool divides_sums = true;
};

/// Elements as integers, small enough to be exact in every type (0 to 127).
using Values = std::vector<std::int64_t>;
constexpr std::int64_t k_untouched = 99;  // value of outputs before a call
constexpr std::int64_t k_no_integer =
    std::numeric_limits<std::int64_t>::min();  // a value that is not an integer

constexpr std::array k_moved_types{DType::fp64, DType::fp32,  DType::fp16,   DType::bf16,
                                   DType::fp8,  DType::int64, DType::int32,  DType::int16,
                                   DType::int8, DType::uint8, DType::boolean};

/// 0, 1, odd, and more than one piece of whatever size a transport cuts calls into.
constexpr std::array<std::int64_t, 6> k_counts{0, 1, 3, 255, 4097, 10'001};

template <typename T>
void store(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof(T));
}

template <typename T>
T load(const std::byte* from) {
  T value{};
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// The bits of an integer below 2048 as fp16.
inline std::uint16_t fp16_bits(std::int64_t value) {
  if (value == 0) {
    return 0;
  }
  const auto magnitude = static_cast<std::uint64_t>(std::abs(value));
  const auto exponent = static_cast<unsigned>(std::bit_width(magnitude)) - 1U;
  const std::uint64_t fraction = magnitude << (10U - exponent) & 0x3FFU;
  return static_cast<std::uint16_t>((value < 0 ? 0x8000U : 0U) | (exponent + 15U) << 10U | fraction);
}

inline double fp16_value(std::uint16_t bits) {
  const int exponent = (bits >> 10U) & 0x1F;
  const int fraction = bits & 0x3FF;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

inline std::int64_t integer_of(double value) {
  return value == std::floor(value) && std::abs(value) < 1e9 ? static_cast<std::int64_t>(value)
                                                             : k_no_integer;
}

inline void encode(DType type, std::int64_t value, std::byte* to) {
  switch (type) {
    case DType::fp64:
      return store(static_cast<double>(value), to);
    case DType::fp32:
      return store(static_cast<float>(value), to);
    case DType::fp16:
      return store(fp16_bits(value), to);
    case DType::bf16:
      return store(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16U),
                   to);
    case DType::int64:
      return store(value, to);
    case DType::int32:
      return store(static_cast<std::int32_t>(value), to);
    case DType::int16:
      return store(static_cast<std::int16_t>(value), to);
    case DType::fp8:  // only moved: any bits will do
    case DType::boolean:
    case DType::int8:
    case DType::uint8:
      return store(static_cast<std::uint8_t>(value), to);
  }
}

inline std::int64_t decode(DType type, const std::byte* from) {
  switch (type) {
    case DType::fp64:
      return integer_of(load<double>(from));
    case DType::fp32:
      return integer_of(load<float>(from));
    case DType::fp16:
      return integer_of(fp16_value(load<std::uint16_t>(from)));
    case DType::bf16:
      return integer_of(std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(from)} << 16U));
    case DType::int64:
      return load<std::int64_t>(from);
    case DType::int32:
      return load<std::int32_t>(from);
    case DType::int16:
      return load<std::int16_t>(from);
    case DType::int8:
      return load<std::int8_t>(from);
    case DType::fp8:
    case DType::boolean:
    case DType::uint8:
      return load<std::uint8_t>(from);
  }
  return k_no_integer;
}

/// Elements in the transport's memory, between guards that no call may touch.
class Buffer {
 public:
  Buffer(const Target& target, DType type, const Values& values)
      : target_(target), type_(type), count_(values.size()), memory_(target.allocate(bytes())) {
    std::vector<std::byte> host(bytes(), k_guard);
    for (std::size_t i = 0; i < count_; ++i) {
      encode(type_, values[i], &host[k_guard_bytes + i * width()]);
    }
    target_.write(memory_, host.data(), host.size());
  }
  /// An output of `count` elements that nothing has been written to.
  Buffer(const Target& target, DType type, std::int64_t count)
      : Buffer(target, type, Values(static_cast<std::size_t>(count), k_untouched)) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { target_.release(memory_); }

  void* memory() const { return static_cast<std::byte*>(memory_) + k_guard_bytes; }
  Elements elements() const { return {static_cast<std::int64_t>(count_)}; }

  /// Throws Failure, naming `what`, unless the elements are `expected` and the guards whole.
  void expect(const Values& expected, const std::string& what) const {
    std::vector<std::byte> host(bytes());
    target_.read(host.data(), memory_, host.size());
    const auto is_guard = [](std::byte byte) { return byte == k_guard; };
    if (!std::all_of(host.begin(), host.begin() + k_guard_bytes, is_guard) ||
        !std::all_of(host.end() - k_guard_bytes, host.end(), is_guard)) {
      throw Failure(fmt::format("{}: written outside the buffer", what));
    }
    if (expected.size() != count_) {
      throw Failure(fmt::format("{}: {} elements, not {}", what, count_, expected.size()));
    }
    for (std::size_t i = 0; i < count_; ++i) {
      const std::int64_t found = decode(type_, &host[k_guard_bytes + i * width()]);
      if (found != expected[i]) {
        throw Failure(fmt::format("{}: element {} is {}, not {}", what, i, found, expected[i]));
      }
    }
  }

 private:
  static constexpr std::size_t k_guard_bytes = 64;
  static constexpr std::byte k_guard{0xA5};

  std::size_t width() const { return static_cast<std::size_t>(size_of(type_)); }
  std::size_t bytes() const { return count_ * width() + 2 * k_guard_bytes; }

  const Target& target_;
  DType type_;
  std::size_t count_;
  void* memory_;
};

constexpr std::int64_t k_period = 13;  // period of a rank's inputs

/// Element `index` of the input of rank `rank`: 0 to 12, different for neighbouring ranks and indices.
constexpr std::int64_t given(std::int64_t rank, std::int64_t index) {
  return (rank * 3 + index * 7) % k_period;
}

/// Elements [first, first + count) of a sequence of period k_period; `value` is its function of the index.
template <typename Value>
Values repeated(std::int64_t first, std::int64_t count, const Value& value) {
  std::array<std::int64_t, k_period> table{};
  for (std::int64_t i = 0; i < k_period; ++i) {
    table.at(static_cast<std::size_t>(i)) = value(first + i);
  }
  Values values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = table[i % table.size()];
  }
  return values;
}

/// Elements [first, first + count) of the input of `rank`.
inline Values given(std::int64_t rank, std::int64_t first, std::int64_t count) {
  return repeated(first, count, [&](std::int64_t index) { return given(rank, index); });
}

/// Elements [first, first + count) of the combined inputs of `ranks` ranks.
inline Values combined(ReduceOp reduction, std::int64_t ranks, std::int64_t first, std::int64_t count) {
  return repeated(first, count, [&](std::int64_t index) {
    std::int64_t value = given(0, index);
    for (std::int64_t rank = 1; rank < ranks; ++rank) {
      const std::int64_t next = given(rank, index);
      value = reduction == ReduceOp::sum ? value + next : std::max(value, next);
    }
    return value;
  });
}

/// A call over two buffers.
inline CommCall call_of(CommKind kind, DType type, const Buffer& input, const Buffer& output) {
  return {.kind = kind,
          .dtype = type,
          .input_buffer = input.memory(),
          .output_buffer = output.memory(),
          .input = input.elements(),
          .output = output.elements()};
}

inline CommCall send_of(DType type, const Buffer& message, std::int64_t to) {
  return {.kind = CommKind::send,
          .dtype = type,
          .input_buffer = message.memory(),
          .input = message.elements(),
          .peer = GroupRank{to}};
}

inline CommCall recv_of(DType type, const Buffer& message, std::int64_t from) {
  return {.kind = CommKind::recv,
          .dtype = type,
          .output_buffer = message.memory(),
          .output = message.elements(),
          .peer = GroupRank{from}};
}

/// The prefix of a failure's message.
inline std::string title(CommKind kind, DType type, std::int64_t count) {
  return fmt::format("{} of {} {}", name_of(kind), count, name_of(type));
}

}  // namespace commlens::conformance
