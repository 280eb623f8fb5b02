#include "commlens/bench/replay_buffers.hpp"

#include <algorithm>
#include <iterator>
#include <map>

#include "commlens/base/units.hpp"

namespace commlens::bench {
namespace {

constexpr std::int64_t k_buffer_alignment = 64;  // a cache line

/// Places from a range of bytes without end, lowest first.
class BufferPlaces {
 public:
  std::int64_t take(std::int64_t bytes) {
    const auto free =
        std::find_if(free_.begin(), free_.end(), [&](const auto& range) { return range.second >= bytes; });
    if (free == free_.end()) {
      return grow(bytes);
    }
    const auto [at, length] = *free;
    free_.erase(free);
    if (length > bytes) {
      free_.emplace(at + bytes, length - bytes);
    }
    return at;
  }

  void give_back(std::int64_t at, std::int64_t bytes) {
    auto next = free_.lower_bound(at);
    if (next != free_.end() && at + bytes == next->first) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      if (const auto before = std::prev(next); before->first + before->second == at) {
        before->second += bytes;
        return;
      }
    }
    free_.emplace(at, bytes);
  }

  std::int64_t end() const { return end_; }

 private:
  /// At the end, of which a part may be free.
  std::int64_t grow(std::int64_t bytes) {
    std::int64_t at = end_;
    if (!free_.empty()) {
      if (const auto last = std::prev(free_.end()); last->first + last->second == end_) {
        at = last->first;
        free_.erase(last);
      }
    }
    end_ = at + bytes;
    return at;
  }

  std::map<std::int64_t, std::int64_t> free_;
  std::int64_t end_ = 0;
};

/// Whether input and output are one buffer.
bool is_in_place(CommKind kind) {
  return kind == CommKind::all_reduce || kind == CommKind::broadcast || kind == CommKind::reduce;
}

std::int64_t room_for(Elements elements, DType dtype) {
  return round_up((elements * dtype).value, k_buffer_alignment);
}

}  // namespace

void place_buffers(RankProgram& program) {
  BufferPlaces places;
  for (const ReplayStep& step : program.steps) {
    ReplayCall& call = program.calls[step.call];
    const CommCall& made = program.ops[call.op].call;
    const std::int64_t input = room_for(made.input, made.dtype);
    const std::int64_t output = is_in_place(made.kind) ? 0 : room_for(made.output, made.dtype);
    const bool is_issue = step.kind == ReplayStep::Kind::issue;
    if (is_issue && input > 0) {
      call.input_at = places.take(input);
    }
    if (is_issue) {
      call.output_at = output > 0 ? places.take(output) : call.input_at;
      continue;
    }
    if (input > 0) {
      places.give_back(call.input_at, input);
    }
    if (output > 0) {
      places.give_back(call.output_at, output);
    }
  }
  program.pool = Bytes{places.end()};
}

}  // namespace commlens::bench
