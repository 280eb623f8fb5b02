#include "commlens/formats/chakra/export.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/formats/chakra/graph.hpp"
#include "commlens/formats/io/write_stream.hpp"

namespace commlens::formats::chakra {
namespace {

ChakraGraph::UnevenSizes uneven_sizes(const CallSchedule& schedule) {
  ChakraGraph::UnevenSizes sizes;
  const std::vector<CollectiveSeries>& series = schedule.series();
  if (std::none_of(series.begin(), series.end(), [](const CollectiveSeries& one) { return one.is_uneven; })) {
    return sizes;
  }
  const Trace& trace = schedule.trace();
  for (const RankStream& stream : trace.streams) {
    for (const Rank rank : stream.ranks) {
      ScheduledRank calls(schedule, stream, rank);
      for (ScheduledCall call; calls.next(call);) {
        const CommOp& op = trace.op(stream.events[call.row].op);
        if (op.kind == CommKind::all_to_all && call.role.kind == CallRole::Kind::collective) {
          sizes[series[call.role.index].first_instance + call.number] += (op.input * op.dtype).value;
        }
      }
    }
  }
  return sizes;
}

}  // namespace

Result<void> write(const Trace& trace, const CallSelection& selection,
                   const std::filesystem::path& directory) {
  const CallSchedule schedule(trace, selection.order != nullptr);
  const ChakraGraph::UnevenSizes uneven = uneven_sizes(schedule);
  for (const RankStream& stream : trace.streams) {
    for (const Rank rank : stream.ranks) {
      if (selection.rank && *selection.rank != rank) {
        continue;
      }
      write_stream((directory / fmt::format("chakra.{}.et", rank.value)).string(), [&](const TextSink& sink) {
        ChakraGraph graph(schedule, uneven, sink);
        if (selection.order == nullptr) {
          return graph.write(stream, rank);
        }
        const auto row = static_cast<std::size_t>(&stream - trace.streams.data());
        graph.write_steps(stream, rank, selection.order->streams[row], selection.order->works);
      });
    }
  }
  return {};
}

}  // namespace commlens::formats::chakra
