#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/rank.hpp"

namespace commlens::formats::kineto {

/// What PyTorch writes about a collective, on its CPU op `record_param_comms` and (torch >= 2.3) on the
/// kernel. Texts are as they stand between their quotes. Source: kineto libkineto/src/output_json.cpp,
/// pytorch torch/csrc/profiler/util.cpp:saveNcclMeta.
struct KinetoMetadata {
  std::string collective;                   // "allreduce", "_allgather_base", …; empty: no metadata
  std::string dtype;                        // "Float", "BFloat16", …
  std::optional<std::int64_t> in_elements;  // of this rank
  std::optional<std::int64_t> out_elements;
  std::optional<std::int64_t> group_size;
  std::string group_name;
  std::string group_ranks;  // "[0, 1]", maybe cut short with "..."
  std::optional<std::int64_t>
      rank;  // position in the group: of this rank; of the root of a broadcast or reduce
  std::optional<std::int64_t> source;       // global rank, recv
  std::optional<std::int64_t> destination;  // global rank, send
  std::optional<std::int64_t> rank_start;   // of the group's global ranks
  std::optional<std::int64_t> rank_stride;
};

/// One event of `traceEvents`; texts stay valid during the call that hands it out.
struct KinetoEvent {
  std::string_view phase;  // "X", "M", "s", …
  std::string_view category;
  std::string_view name;
  std::optional<std::int64_t> start_ns;  // exact where the file has at most three decimals of a microsecond
  std::optional<std::int64_t> duration_ns;
  std::uint64_t thread = 0;  // same for the same pid and tid
  std::optional<std::int64_t> correlation;
  std::optional<std::int64_t> external;  // "External id": of a CPU op, and of the kernels that it launched
  KinetoMetadata metadata;
  std::string_view input_dims;  // JSON text
  std::string_view input_types;
};

/// What the reader of a trace does with events of some category and name.
enum class KinetoRole : std::uint8_t { none, kernel, memory, launch, step, collective, product };

/// Of an event of phase "X"; old files write the categories in capitals.
KinetoRole role_of(std::string_view category, std::string_view name);

using KinetoSink = std::function<void(const KinetoEvent&)>;

struct KinetoRun {
  std::int64_t events = 0;
  std::int64_t invalid = 0;  // elements that are no valid JSON object
};

/// Hands every event of `run` (a JSON array, with JsonStream::k_padding readable bytes after it) to `take`.
/// Arguments are read for roles that need them.
KinetoRun read_kineto_events(std::string_view run, const KinetoSink& take);

/// The file's own description of the job.
struct KinetoJob {
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> world_size;
  std::map<std::string, std::vector<Rank>, std::less<>> groups;  // ranks by group name; all ranks: skipped
  std::map<std::string, std::int64_t, std::less<>> group_sizes;
};

/// From the JSON text of `distributedInfo`, with padding after it; what is not there stays absent.
KinetoJob read_kineto_job(std::string_view json);

/// "4458677009853.422" microseconds in nanoseconds, rounded to the nearest where there are more decimals;
/// absent when it is no number or beyond ±73 years.
std::optional<std::int64_t> nanoseconds_of(std::string_view microseconds);

/// Numbers in a text like "[[394241], [3, 4]]": the product of each innermost list, in order (an empty list:
/// 1, a scalar).
std::vector<std::int64_t> element_counts(std::string_view dims);

/// Numbers in a text like "[[4, 8], [8, 3], []]", by innermost list.
std::vector<std::vector<std::int64_t>> dimensions_of(std::string_view dims);

/// The first type in `["float", "Scalar"]`.
std::string first_type(std::string_view types);

}  // namespace commlens::formats::kineto
