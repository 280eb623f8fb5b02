#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "commlens/bench/bench_op.hpp"
#include "commlens/bench/pattern.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens::bench {

/// A call that is timed, as all ranks of its group know it.
struct BenchCase {
  BenchOp op = BenchOp::all_reduce;
  DType dtype = DType::fp32;
  Elements message;        // in the sense of nccl-tests: of all ranks where they have parts
  std::int64_t ranks = 1;  // of the group
  bool in_place = false;
  std::int64_t root = 0;
  std::vector<Elements> parts = {};  // of unequal sizes, whose sum is `message`; empty: unequal_parts()

  Bytes bytes() const { return message * dtype; }
};

/// Elements that a rank of the group sends and receives, and in which parts if they are unequal.
struct CaseSizes {
  Elements input;
  Elements output;
  std::vector<Elements> input_parts;
  std::vector<Elements> output_parts;
};
CaseSizes sizes_of(const BenchCase& timed, std::int64_t rank);

/// `total` in unequal parts: in the ratio 1 : 2 : … : ranks, the rest to the last.
std::vector<Elements> unequal_parts(Elements total, std::int64_t ranks);

/// A piece of a rank's output and whose data it must have.
struct VerifiedPart {
  std::int64_t at = 0;        // element of the output
  std::int64_t count = 0;     // elements
  std::int64_t from = 0;      // the rank of the group that they come from; -1: the sums of all
  std::int64_t position = 0;  // of the first of them in the pattern
};
std::vector<VerifiedPart> verified_parts(const BenchCase& timed, std::int64_t rank);

/// Memory of one rank for the buffers of its calls, used in turns: as large as one call needs (hot), or so
/// large that a call's buffers have left the caches before they are used again (cold).
class Arena {
 public:
  /// `least`: bytes in all, of which no call needs more than `largest`. `goes_on` is asked between large
  /// pieces of the memory, with how much is done; once it says no, the rest is left as the system gives it.
  Arena(Bytes largest, Bytes least, const std::function<bool(Bytes done)>& goes_on = {});

  /// The next `bytes` of it.
  std::span<std::byte> next(Bytes bytes);

 private:
  struct Release {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte[], Release> memory_;
  std::size_t size_ = 0;
  std::size_t next_ = 0;
};

/// Bytes that a rank's buffers of one call take in an arena.
Bytes arena_bytes(const BenchCase& timed, std::int64_t rank);

/// One rank's part of a case.
class CaseCalls {
 public:
  /// All three outlive it.
  CaseCalls(const BenchCase& timed, Communicator& communicator, Arena& arena);

  /// Takes the next buffers of the arena: before each call that is timed.
  void take_buffers();
  /// Makes the call and waits.
  void run();
  /// Issues it; for ops that are one call.
  std::unique_ptr<Work> start();

  /// Makes a call with the data of the pattern, which other iterations differ from, and compares all of this
  /// rank's output. Elements that the call does not write are never right.
  Wrong verified(std::int64_t iteration);

 private:
  CommCall call() const;
  void ping_pong();
  void window();
  std::span<std::byte> input() const;
  std::span<std::byte> output() const;
  void fill_input(std::int64_t iteration);
  Wrong wrong_of(std::int64_t iteration) const;

  const BenchCase& case_;
  Communicator& communicator_;
  Arena& arena_;
  std::int64_t rank_;
  CaseSizes sizes_;
  std::span<std::byte> buffers_;  // input, then output
  std::size_t output_at_ = 0;
};

}  // namespace commlens::bench
