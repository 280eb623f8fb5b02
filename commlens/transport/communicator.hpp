#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/dtype.hpp"
#include "commlens/base/rank.hpp"
#include "commlens/base/result.hpp"
#include "commlens/base/units.hpp"
#include "commlens/comm/event.hpp"

namespace commlens {

/// How all_reduce, reduce and reduce_scatter combine elements. avg: the sum divided by the number of ranks,
/// for floating-point types only.
enum class ReduceOp : std::uint8_t { sum, max, avg };

/// Which call a call of kind `other` is. Recorded under these names, as kind `other`.
enum class OtherCall : std::uint8_t { none, gather, scatter };

/// One call of a rank. Buffers hold `input` and `output` elements of `dtype` on the communicator's memory
/// (host, or device for NCCL) and stay valid and untouched until the call is complete. `input_buffer` may
/// equal `output_buffer` (all_reduce, reduce, broadcast); otherwise they do not overlap. Sizes follow
/// comm/volume.hpp: all_gather output = input x size, reduce_scatter input = output x size, all_to_all input
/// = output = a multiple of size (equal parts, in group order), broadcast and reduce input = output on every
/// rank, send output = 0, recv input = 0. gather: input = a part, output = input x size at the root, 0
/// elsewhere; scatter: output = a part, input = output x size at the root, 0 elsewhere. Any size may be 0.
///
/// Parts of unequal sizes: all_to_all with both spans (what goes to, and comes from, each rank; the sums are
/// input and output, which may differ), all_gather and gather with `output_parts` (input = its own part),
/// reduce_scatter and scatter with `input_parts` (output = its own part), each of `size` entries in group
/// order, and given by every rank of the call. The spans stay valid until the call is complete.
struct CommCall {
  CommKind kind = CommKind::barrier;
  DType dtype = DType::uint8;
  ReduceOp reduction = ReduceOp::sum;
  const void* input_buffer = nullptr;
  void* output_buffer = nullptr;
  Elements input;
  Elements output;
  GroupRank peer;        // broadcast, reduce, gather, scatter: the root; send and recv: the other rank
  std::string_view tag;  // label of the data, for people; a string with static lifetime
  OtherCall other = OtherCall::none;        // kind other
  std::span<const Elements> input_parts{};  // of unequal sizes; empty: equal parts
  std::span<const Elements> output_parts{};
};

/// The time of a call's data movement, in nanoseconds of Clock::of_process(), `started_ns` <= `finished_ns`.
/// It starts when the transport starts the call, which needs all ranks of the call to have issued it.
struct MovedTimes {
  std::int64_t started_ns = 0;
  std::int64_t finished_ns = 0;
};

/// A call in progress.
class Work {
 public:
  virtual ~Work() = default;
  /// Returns once this rank's buffers may be used again (on a device: once later kernels of the default
  /// stream see the result). Throws SystemError when the job was aborted or the library failed. May be called
  /// again.
  virtual void wait() = 0;
  /// Whether the call is complete, without waiting. A transport that makes no progress by itself makes some
  /// here. Throws as wait() does.
  virtual bool is_complete() = 0;
  /// Once wait() has returned, or is_complete() was true: when the data moved; std::nullopt where the
  /// transport does not know.
  virtual std::optional<MovedTimes> moved() const { return std::nullopt; }
};

/// A group of ranks that communicate; a rank uses its communicators from one thread. All ranks of a group
/// make the same collective calls in the same order, each of them in the same way (start, or run); send and
/// recv match in order per pair of ranks. Sums of fp16 and bf16 are accumulated in fp32 where the transport
/// does the arithmetic itself, and then rounded once.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// Global ranks of the group, in group order.
  virtual const std::vector<Rank>& members() const = 0;
  virtual GroupRank rank() const = 0;

  /// Whether started calls progress while their ranks are busy. If not, their data move when a rank waits,
  /// and computing overlaps nothing.
  virtual bool makes_progress() const { return false; }

  /// Whether it can be faster to start a call before its result is needed than to run() it then.
  virtual bool starting_pays() const { return true; }
  std::int64_t size() const { return static_cast<std::int64_t>(members().size()); }

  /// Issues a call and returns at once. The Work may be dropped after wait() only.
  virtual std::unique_ptr<Work> start(const CommCall& call) = 0;

  /// Issues several calls as one (ncclGroupStart … ncclGroupEnd): they make progress together, so that a
  /// send and a recv that cross those of other ranks cannot wait for each other. The Work is complete when
  /// all are. Every rank that takes part in one of its collective calls issues the same collective calls as
  /// one.
  virtual std::unique_ptr<Work> start_group(std::span<const CommCall> calls);

  /// Ranks with the same `color` (>= 0) form a new group, ordered by `key`, then by their rank in this group;
  /// a negative color returns null. Collective over this group.
  virtual std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key) = 0;

  /// The algorithms of its library that a call of `kind` can be made with, by the library's own names
  /// ("recursive_doubling"); empty where there is nothing to choose.
  virtual std::vector<std::string> algorithms(CommKind /*kind*/) const { return {}; }

  /// A communicator of the same ranks whose calls of `kind` use that algorithm, whatever their size.
  /// Collective over this group. Fails, on every rank alike, where algorithms() does not list it.
  virtual Result<std::unique_ptr<Communicator>> with_algorithm(CommKind kind, const std::string& algorithm);

  /// Ends the whole job: every current and future call of every rank throws SystemError with `reason`
  /// (threads, NCCL) or the process ends (MPI). Thread-safe.
  virtual void abort(std::string_view reason) = 0;

  /// As start(call), then wait; cheaper where the transport has blocking calls.
  virtual void run(const CommCall& call) { start(call)->wait(); }
  void barrier() { run({.kind = CommKind::barrier}); }
};

}  // namespace commlens
