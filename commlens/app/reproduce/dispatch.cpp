#include "commlens/app/reproduce/dispatch.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "commlens/app/version.hpp"
#include "commlens/base/check.hpp"
#include "commlens/trace/recorder.hpp"
#include "commlens/trace/trace_file.hpp"
#include "commlens/transport/comm_recording.hpp"
#include "commlens/transport/thread_ranks.hpp"

namespace commlens::study {
namespace {

constexpr SkewedRouter k_balanced{.experts = 8, .top_k = 2, .tokens = 4096, .exponent = 0};
constexpr std::int64_t k_recorded_hidden =
    16;  // 256 KiB a rank: tokens are routed the same whatever their size

SkewedRouter zipf(double exponent) {
  SkewedRouter router = k_balanced;
  router.exponent = exponent;
  return router;
}

/// One dispatch of a rank to all ranks, of 16-bit elements.
void dispatch(Communicator& world, const std::vector<std::int64_t>& copies) {
  std::vector<Elements> sends;
  for (const std::int64_t of_rank : copies) {
    sends.push_back({of_rank * k_recorded_hidden});
  }
  const std::vector<Elements> receives(copies.size(), sends[static_cast<std::size_t>(world.rank().value)]);
  const std::int64_t input =
      std::accumulate(copies.begin(), copies.end(), std::int64_t{0}) * k_recorded_hidden;
  const std::int64_t output = receives.front().value * world.size();
  const std::vector<std::uint16_t> from(static_cast<std::size_t>(input));
  std::vector<std::uint16_t> to(static_cast<std::size_t>(output));
  world.run({.kind = CommKind::all_to_all,
             .dtype = DType::bf16,
             .input_buffer = from.data(),
             .output_buffer = to.data(),
             .input = {input},
             .output = {output},
             .tag = "dispatch",
             .input_parts = sends,
             .output_parts = receives});
}

/// What the recording says of each iteration.
Result<RecordedDispatches> bytes_of(const Trace& trace, std::size_t iterations) {
  RecordedDispatches result{
      fmt::format(
          "calls of unequal parts between {} threads of this machine, made by `commlens reproduce` and "
          "read from their recording, recordings/{}",
          k_expert_ranks, k_dispatch_recording),
      k_recorded_hidden,
      {}};
  result.bytes.resize(iterations, std::vector<DispatchedBytes>(k_expert_ranks));
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(k_expert_ranks); ++rank) {
    const RankStream* const stream = trace.stream_of(Rank{static_cast<std::int64_t>(rank)});
    if (stream == nullptr || stream->events.size() != iterations) {
      return failure("the recording of dispatches lacks calls; is the disk full?");
    }
    for (std::size_t at = 0; at < iterations; ++at) {
      const CommOp& op = trace.op(stream->events[at].op);
      result.bytes[at][rank] = {op.input * op.dtype, op.output * op.dtype};
    }
  }
  return result;
}

}  // namespace

std::vector<std::int64_t> RoutedTokens::copies(std::int64_t ranks) const {
  std::vector<std::int64_t> routed = routed_copies(router);
  if (capacity > 0) {
    routed = with_capacity(std::move(routed), expert_capacity(router, capacity), is_padded);
  }
  return copies_for_ranks(routed, ranks);
}

double RoutedTokens::dropped_share() const {
  if (capacity == 0) {
    return 0;
  }
  const std::vector<std::int64_t> kept =
      with_capacity(routed_copies(router), expert_capacity(router, capacity), false);
  const std::int64_t all = router.tokens * router.top_k;
  return 1 - static_cast<double>(std::accumulate(kept.begin(), kept.end(), std::int64_t{0})) /
                 static_cast<double>(all);
}

std::vector<RoutedTokens> routed_settings() {
  return {{"balanced", zipf(0)},
          {"Zipf 0.5", zipf(0.5)},
          {"Zipf 1", zipf(1)},
          {"Zipf 1, C = 2", zipf(1), 2},
          {"Zipf 1, C = 1.25", zipf(1), 1.25},
          {"Zipf 1, C = 1.25, padded", zipf(1), 1.25, true}};
}

std::vector<DispatchedBytes> dispatched(const RoutedTokens& tokens, std::int64_t hidden) {
  const std::vector<std::int64_t> copies = tokens.copies(k_expert_ranks);
  const Bytes token = Elements{hidden} * DType::bf16;
  const Bytes sent = token * std::accumulate(copies.begin(), copies.end(), std::int64_t{0});
  std::vector<DispatchedBytes> bytes;
  for (const std::int64_t of_rank : copies) {
    bytes.push_back({sent, token * (of_rank * k_expert_ranks)});
  }
  return bytes;
}

Result<RecordedDispatches> recorded_dispatches(const std::string& directory) {
  const std::vector<RoutedTokens> settings = routed_settings();
  create_recording(directory, {.producer = fmt::format("commlens {}", k_version),
                               .description = "dispatches of tokens to experts, a routing an iteration",
                               .framework = "commlens",
                               .ranks = k_expert_ranks});
  run_thread_ranks(k_expert_ranks, [&](std::unique_ptr<Communicator> world) {
    Recorder recorder(directory, Rank{world->rank().value});
    CommClock clock;
    const std::unique_ptr<Communicator> seen = recorded(std::move(world), Axis::ep, recorder, clock);
    for (std::size_t at = 0; at < settings.size(); ++at) {
      recorder.set_iteration(static_cast<Iteration>(at));
      dispatch(*seen, settings[at].copies(k_expert_ranks));
    }
  });
  finish_recording(directory);
  return read_trace(directory).and_then([&](const Trace& trace) { return bytes_of(trace, settings.size()); });
}

}  // namespace commlens::study
