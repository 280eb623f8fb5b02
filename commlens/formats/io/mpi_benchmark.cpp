#include "commlens/formats/io/mpi_benchmark.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "commlens/formats/io/text_search.hpp"

namespace commlens::formats {
namespace {

/// Part of a title in lower case, in the order in which they are looked for: "reduce" is in "allreduce".
constexpr std::array<std::pair<std::string_view, CommKind>, 24> k_title_parts = {
    {{"neighbor", CommKind::other},
     {"one sided", CommKind::other},
     {"mpi_", CommKind::other},  // MPI_Put, MPI_Get, MPI_Fetch_and_op: one-sided
     {"unidir", CommKind::other},
     {"bidir_", CommKind::other},
     {"all_put", CommKind::other},
     {"all_get", CommKind::other},
     {"accumulate", CommKind::other},
     {"exchange_put", CommKind::other},
     {"exchange_get", CommKind::other},
     {"reduce_scatter", CommKind::reduce_scatter},
     {"allreduce", CommKind::all_reduce},
     {"allgather", CommKind::all_gather},
     {"all-to-all", CommKind::all_to_all},
     {"alltoall", CommKind::all_to_all},
     {"broadcast", CommKind::broadcast},
     {"bcast", CommKind::broadcast},
     {"barrier", CommKind::barrier},
     {"reduce", CommKind::reduce},
     {"gather", CommKind::other},
     {"scatter", CommKind::other},
     {"exchange", CommKind::other},
     {"scan", CommKind::other},
     {"local", CommKind::other}}};

constexpr std::array<std::string_view, 8> k_message_parts = {
    "latency", "bandwidth", "pingpong", "pingping", "sendrecv", "uniband", "biband", "message rate"};

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return lower;
}

/// "MPI_Put" of "OSU MPI_Put Latency Test", else the whole title.
std::string other_name(std::string_view title) {
  for (const std::string_view word : blank_separated(title, 40)) {
    if (word.starts_with("MPI_")) {
      return std::string(word);
    }
  }
  return std::string(title);
}

}  // namespace

MpiBenchmark mpi_benchmark(std::string_view title) {
  const std::string lower = in_lower_case(title);
  const auto contains = [&](std::string_view part) { return lower.find(part) != std::string::npos; };
  for (const auto& [part, kind] : k_title_parts) {
    if (contains(part)) {
      return {kind, kind == CommKind::other ? other_name(title) : std::string()};
    }
  }
  if (std::any_of(k_message_parts.begin(), k_message_parts.end(), contains)) {
    return {CommKind::send, {}};
  }
  return {CommKind::other, other_name(title)};
}

std::optional<BenchmarkPoint> mpi_point(const MpiBenchmark& benchmark, std::int64_t bytes,
                                        std::int64_t ranks) {
  constexpr std::int64_t largest = std::int64_t{1} << 50;
  if (bytes < 0 || ranks < 0 || ranks > k_max_ranks || bytes > largest / std::max<std::int64_t>(ranks, 1)) {
    return std::nullopt;
  }
  BenchmarkPoint point;
  point.kind = benchmark.kind;
  point.name = benchmark.name;
  point.ranks = ranks;
  point.input_bytes = bytes;
  point.output_bytes = bytes;
  switch (benchmark.kind) {
    case CommKind::all_gather:
    case CommKind::all_to_all:
      point.output_bytes = bytes * ranks;
      point.input_bytes = benchmark.kind == CommKind::all_gather ? bytes : bytes * ranks;
      if (ranks == 0) {
        point.name = benchmark.kind == CommKind::all_gather ? "allgather of unknown ranks, a rank's part"
                                                            : "alltoall of unknown ranks, part of one rank";
        point.kind = CommKind::other;
        point.input_bytes = bytes;
      }
      break;
    case CommKind::reduce_scatter:
      point.output_bytes = ranks == 0 ? 0 : bytes / ranks;
      break;
    case CommKind::barrier:
      point.input_bytes = 0;
      point.output_bytes = 0;
      break;
    case CommKind::send:
    case CommKind::other:
      point.output_bytes = 0;
      break;
    default:
      break;
  }
  return point;
}

}  // namespace commlens::formats
