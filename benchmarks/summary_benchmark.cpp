// Measures the speed and memory of summarising a native trace, and the error of the histogram's quantiles.
// Goal: more than 20 million calls a second of one core's time, memory that does not grow with the calls, and
// at most 1 % error.
//   summary_benchmark [CALLS [DIRECTORY]]   100 million calls by default; the trace (32 bytes a call) is
//   written
//                                        into DIRECTORY and stays there, or into a temporary directory and
//                                        goes
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "commlens/base/check.hpp"
#include "commlens/base/file.hpp"
#include "commlens/base/text.hpp"
#include "commlens/summary/statistics.hpp"
#include "commlens/trace/call_blocks.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/stream_layout.hpp"

namespace {

using namespace commlens;

constexpr std::int64_t k_ranks = 64;
constexpr std::int64_t k_layers = 24;

/// The calls of an iteration of 64 ranks, tensor-parallel by 8: two tensor all_reduces a layer and pass, an
/// all_gather and a reduce_scatter of each layer's data-parallel shard, and a few small ones.
class IterationOps {
 public:
  IterationOps(Trace& trace, Rank rank) : trace_(trace), rank_(rank) {
    for (std::int64_t layer = 0; layer < k_layers; ++layer) {
      const std::string tag = fmt::format("layer {}", layer);
      for (const Phase phase : {Phase::forward, Phase::forward, Phase::backward, Phase::backward}) {
        add(CommKind::all_reduce, Axis::tp, phase, 1 << 23, tag);
      }
      add(CommKind::all_gather, Axis::dp, Phase::forward, (1 << 20) + (layer << 12), tag);
      add(CommKind::reduce_scatter, Axis::dp, Phase::backward, (1 << 20) + (layer << 12), tag);
    }
    add(CommKind::all_reduce, Axis::dp, Phase::optimizer, 4, "overflow");
    add(CommKind::barrier, Axis::dp, Phase::other, 0, "");
  }
  const std::vector<OpId>& ops() const { return ops_; }

 private:
  void add(CommKind kind, Axis axis, Phase phase, std::int64_t bytes, const std::string& tag) {
    std::vector<Rank> members;
    for (std::int64_t member = 0; member < k_ranks; ++member) {
      const bool is_tensor = axis == Axis::tp;
      if (is_tensor ? member / 8 == rank_.value / 8 : member % 8 == rank_.value % 8) {
        members.push_back({member});
      }
    }
    CommOp op;
    op.kind = kind;
    op.phase = phase;
    op.group = trace_.groups.intern(members, axis);
    op.input = op.output = Elements{bytes};
    op.tag = trace_.tags.intern(tag);
    ops_.push_back(trace_.intern(op));
  }

  Trace& trace_;
  Rank rank_;
  std::vector<OpId> ops_;
};

/// Durations around 100 µs with a long tail: a sum of 4 uniform numbers approximates a normal one.
class Durations {
 public:
  std::int64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    std::int64_t sum = 0;
    for (int part = 0; part < 4; ++part) {
      sum += static_cast<std::int64_t>(state_ >> (16 * part) & 0xFFFFU);
    }
    return table_[static_cast<std::size_t>(sum >> 6)] + static_cast<std::int64_t>(state_ & 0xFFFU);
  }

 private:
  static std::array<std::int64_t, 4096> table() {
    std::array<std::int64_t, 4096> durations{};
    for (std::size_t at = 0; at < durations.size(); ++at) {
      durations[at] = std::llround(1e5 * std::exp((static_cast<double>(at) - 2048) / 300));
    }
    return durations;
  }
  std::uint64_t state_ = 0x9E3779B97F4A7C15U;
  std::array<std::int64_t, 4096> table_ = table();
};

void write_stream(const std::filesystem::path& file, std::uint32_t index, std::int64_t calls,
                  const std::vector<OpId>& ops, Durations& durations) {
  std::ofstream out(file, std::ios::binary);
  StreamHeader header;
  header.stream = index;
  header.first_rank = header.last_rank = index;
  header.records = static_cast<std::uint64_t>(calls);
  out.write(reinterpret_cast<const char*>(&header), sizeof header);
  std::vector<StreamRecord> records;
  std::int64_t now = 0;
  for (std::int64_t call = 0; call < calls; ++call) {
    const auto place = static_cast<std::size_t>(call) % ops.size();
    const std::int64_t duration = durations.next();
    records.push_back({.op_number = static_cast<std::uint32_t>(ops[place]) + 1,
                       .iteration = static_cast<std::int32_t>(static_cast<std::size_t>(call) / ops.size()),
                       .started_ns = now,
                       .duration_ns = duration});
    now += duration + 1000;
    if (records.size() == 32768 || call + 1 == calls) {
      out.write(reinterpret_cast<const char*>(records.data()),
                static_cast<std::streamsize>(records.size() * sizeof(StreamRecord)));
      records.clear();
    }
  }
  COMMLENS_CHECK(out.flush().good(), "the directory has room for the trace");
}

void write_generated(const std::filesystem::path& directory, std::int64_t calls) {
  std::filesystem::create_directories(directory);
  Trace trace;
  trace.provenance.source = Source::recorded;
  trace.provenance.producer = "summary_benchmark";
  std::vector<StreamEntry> entries;
  Durations durations;
  for (Rank rank{0}; rank.value < k_ranks; ++rank.value) {
    const IterationOps iteration(trace, rank);
    const std::int64_t own = calls * (rank.value + 1) / k_ranks - calls * rank.value / k_ranks;
    entries.push_back({fmt::format("stream-{}.bin", rank.value), {rank, rank}, own, {}});
    write_stream(directory / entries.back().file, static_cast<std::uint32_t>(rank.value), own,
                 iteration.ops(), durations);
  }
  write_file_atomically(directory / k_manifest_name, manifest_text(trace, entries));
}

double processor_seconds() {
  rusage use = {};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

/// The largest resident memory of the process so far, in MiB.
double most_memory() {
  rusage use = {};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_maxrss) / 1024;
}

Summary summary_of(const std::filesystem::path& directory, const SummaryOptions& options) {
  SummaryBuilder builder(options);
  const Result<Trace> tables = visit_calls(directory, [&](const CallBlock& block) { builder.add(block); });
  COMMLENS_CHECK(tables.has_value(), "the generated trace can be read");
  return builder.finish(*tables);
}

Summary measure(const std::filesystem::path& directory, const SummaryOptions& options,
                std::string_view title) {
  Summary summary;
  double best = 1e9;
  for (int repetition = 0; repetition < 3; ++repetition) {
    const double before = processor_seconds();
    summary = summary_of(directory, options);
    best = std::min(best, processor_seconds() - before);
  }
  const auto calls = static_cast<double>(summary.calls);
  fmt::print(
      "{}: {} calls, {} rows, {:.2f} s of processor time, {:.1f} ns a call, {:.1f} million calls/s, {:.0f} "
      "MiB\n",
      title, with_commas(summary.calls), summary.rows.size(), best, best * 1e9 / calls, calls / best / 1e6,
      most_memory());
  std::fflush(stdout);
  return summary;
}

/// The durations of all calls of a row, ascending.
std::vector<std::int64_t> durations_of(const std::filesystem::path& directory, const SummaryRow& row) {
  std::vector<std::int64_t> durations;
  durations.reserve(static_cast<std::size_t>(row.calls));
  const Result<Trace> tables = visit_calls(directory, [&](const CallBlock& block) {
    for (std::size_t at = 0; at < block.events.size(); ++at) {
      const CommOp& op = block.tables.op(block.events[at].op);
      if (op.kind == row.kind && block.tables.groups.axis(op.group) == row.axis) {
        durations.push_back((block.times[at].finished - block.times[at].started).count());
      }
    }
  });
  COMMLENS_CHECK(tables.has_value(), "the generated trace can be read");
  std::sort(durations.begin(), durations.end());
  return durations;
}

void print_errors(const std::filesystem::path& directory, const Summary& summary) {
  for (const SummaryRow& row : summary.rows) {
    const std::vector<std::int64_t> durations = durations_of(directory, row);
    const auto calls = static_cast<std::int64_t>(durations.size());
    const auto error = [&](std::chrono::nanoseconds found, std::int64_t place) {
      const auto exact = static_cast<double>(durations[static_cast<std::size_t>(place - 1)]);
      return 100 * std::abs(static_cast<double>(found.count()) - exact) / exact;
    };
    const std::int64_t rank = median_interval_rank(calls);
    COMMLENS_CHECK(row.time && row.time->p50 && row.time->p95, "every generated call has times");
    fmt::print(
        "{} {}: {} calls, {}: error of P50 {:.3f} %, of its interval {:.3f} % and {:.3f} %, of P95 {:.3f} "
        "%\n",
        name_of(row.kind), name_of(row.axis), with_commas(calls), row.time->exact ? "exact" : "histogram",
        error(*row.time->p50, (calls + 1) / 2), error(row.time->p50_low, rank),
        error(row.time->p50_high, calls + 1 - rank), error(*row.time->p95, (95 * calls + 99) / 100));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Result<std::int64_t> calls = parse_integer(argc > 1 ? argv[1] : "100000000");
  if (!calls || *calls < k_ranks || argc > 3) {
    std::fputs("usage: summary_benchmark [CALLS [DIRECTORY]], at least 64 calls\n", stderr);
    return 2;
  }
  std::string scratch = (std::filesystem::temp_directory_path() / "commlens-benchmark-XXXXXX").string();
  if (argc <= 2) {
    COMMLENS_CHECK(mkdtemp(scratch.data()) != nullptr, "the benchmark needs a temporary directory");
  }
  const std::filesystem::path directory = argc > 2 ? argv[2] : scratch;
  write_generated(directory, *calls);
  const Summary summary = measure(directory, {}, "summary");
  measure(directory, {.by_phase = true, .by_iteration = true}, "by phase and iteration");
  print_errors(directory, summary);
  if (argc <= 2) {
    std::filesystem::remove_all(directory);
  }
  return 0;
}
