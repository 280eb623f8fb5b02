#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "commlens/formats/io/benchmark_trace.hpp"

namespace commlens::formats {

/// What a benchmark of MPI measures.
struct MpiBenchmark {
  CommKind kind = CommKind::other;
  std::string name;  // "MPI_Put", "Scatter", …
};

/// By the name that OMB and IMB give it: "OSU MPI All-to-All Personalized Exchange Latency Test",
/// "Iallreduce".
MpiBenchmark mpi_benchmark(std::string_view title);

/// The call of one row. Both programs mean by the size the buffer of a rank, but of (all)gather and scatter a
/// rank's part and of all-to-all what goes to one rank; so without `ranks` (0) these are of kind `other`.
/// std::nullopt if a size is impossible.
std::optional<BenchmarkPoint> mpi_point(const MpiBenchmark& benchmark, std::int64_t bytes,
                                        std::int64_t ranks);

}  // namespace commlens::formats
