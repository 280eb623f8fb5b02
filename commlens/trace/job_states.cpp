#include "commlens/trace/job_states.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/trace/manifest.hpp"
#include "commlens/trace/op_lanes.hpp"
#include "commlens/trace/open_stream.hpp"
#include "commlens/trace/rank_tables.hpp"
#include "commlens/trace/strangers.hpp"
#include "commlens/trace/stream_checks.hpp"
#include "commlens/trace/stream_file.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

/// A rank's files; without `file` it has not opened them.
struct RankFiles {
  std::optional<StreamFile> file;
  std::vector<OpId> ops;
  std::vector<std::uint32_t> lanes;  // of each op
  std::int64_t lost_lines = 0;       // of the tables: with any, lanes are not known
};

bool has_gone_round(const RankFiles& files) { return files.file && files.file->overwritten() > 0; }

/// An op of each lane, k_lost_op where none is known.
std::vector<OpId> ops_of_lanes(const RankFiles& files) {
  std::vector<OpId> ops;
  for (std::size_t row = 0; row < files.ops.size(); ++row) {
    const std::uint32_t lane = files.lanes[row];
    if (lane == k_no_lane) {
      continue;
    }
    ops.resize(std::max<std::size_t>(ops.size(), std::size_t{lane} + 1), k_lost_op);
    ops[lane] = ops[lane] == k_lost_op ? files.ops[row] : ops[lane];
  }
  return ops;
}

/// Calls that were overwritten, and are still under way.
void add_lapped(const RankFiles& files, std::vector<LappedCall> lapped, RingCalls& ring) {
  std::sort(lapped.begin(), lapped.end(),
            [](const LappedCall& a, const LappedCall& b) { return a.index < b.index; });
  for (const LappedCall& call : lapped) {
    const std::size_t row = call.record.op_number - std::uint32_t{1};
    if (row >= files.ops.size() || files.ops[row] == k_lost_op || is_impossible(call.record)) {
      ++ring.lost;
      continue;
    }
    ring.calls.push_back(stated_call(files.ops[row], call.record));
    ring.calls.back().is_overwritten = true;
    ring.calls.back().number = static_cast<std::int64_t>(std::min<std::uint64_t>(call.number, INT64_MAX));
  }
}

/// What the tables of a rank say of it.
void take_tables(RankTables& tables, RankState& rank) {
  rank.process = std::move(tables.process);
  rank.boot = std::move(tables.clock.boot);
  rank.has_begun_to_end = tables.has_begun_to_end;
  rank.has_ended = tables.closing.has_value();
  if (tables.pause && !rank.has_begun_to_end && !rank.has_ended) {
    const std::chrono::nanoseconds end = tables.pause->at + tables.pause->length + tables.clock.wall_offset;
    rank.pause_until_unix_ns = end.count();
  }
  if (tables.closing) {
    for (const auto& [reason, calls] : tables.closing->skipped) {
      rank.lost = saturating_sum(rank.lost, calls);
    }
  } else if (tables.ops.size() >= k_most_op_rows) {
    ++rank.lost;  // at least: calls that full tables refuse are counted when the recording is closed
  }
}

/// Opens the files of a rank, if it has; the calls before the tables, since both may grow.
Result<void> open_rank(const fs::path& directory, const StreamEntry& entry, Trace& tables, RankFiles& files,
                       RankState& rank) {
  const fs::path path = directory / entry.file;
  std::error_code error;
  if (!fs::exists(path, error) || fs::file_size(path, error) == 0) {
    rank.is_recorded = false;
    return {};
  }
  Result<StreamFile> file = StreamFile::open(path, entry);
  if (!file) {
    return tl::unexpected(file.error());
  }
  files.file.emplace(std::move(*file));
  return read_rank_tables(directory / entry.tables, tables).and_then([&](RankTables read) -> Result<void> {
    if (const Result<void> own = check_rank(directory, entry, read); !own) {
      return own;
    }
    take_tables(read, rank);
    files.ops = std::move(read.ops);
    files.lanes = std::move(read.lanes);
    files.lost_lines = read.lost_lines;
    resolve_strangers(directory, tables, files.ops);
    return {};
  });
}

}  // namespace

StatedCall stated_call(OpId op, const StreamRecord& record) {
  StatedCall call;
  call.op = op;
  call.iteration = record.iteration;
  call.state = state_of(record);
  if (record.started_ns != k_no_time) {
    call.started_ns = record.started_ns;
  }
  call.is_on_device = is_on_device(record);
  return call;
}

struct JobStates::State {
  Manifest manifest;
  std::vector<RankFiles> files;
  std::vector<RankState> ranks;
};

JobStates::JobStates(std::unique_ptr<State> state) : state_(std::move(state)) {}
JobStates::JobStates(JobStates&&) noexcept = default;
JobStates& JobStates::operator=(JobStates&&) noexcept = default;
JobStates::~JobStates() = default;

Result<JobStates> JobStates::open(const fs::path& directory) {
  Result<Manifest> manifest = manifest_of(directory);
  if (!manifest) {
    return tl::unexpected(manifest.error());
  }
  auto state = std::make_unique<State>();
  state->manifest = std::move(*manifest);
  for (const StreamEntry& entry : state->manifest.streams) {
    if (entry.tables.empty()) {
      return failure(fmt::format("{}: no recording; only recordings know calls that have not finished",
                                 directory.string()));
    }
    state->files.emplace_back();
    state->ranks.push_back({.rank = entry.ranks.first, .process = {}, .boot = {}});
    const Result<void> opened =
        open_rank(directory, entry, state->manifest.tables, state->files.back(), state->ranks.back());
    if (!opened) {
      return tl::unexpected(opened.error());
    }
    if (state->files.back().file && !has_gone_round(state->files.back())) {
      std::int64_t& lost = state->ranks.back().lost;
      lost = saturating_sum(lost, state->files.back().file->visit_records(state->files.back().ops,
                                                                          [](OpId, const StreamRecord&) {}));
    }
  }
  return JobStates(std::move(state));
}

const Trace& JobStates::tables() const { return state_->manifest.tables; }
const std::vector<RankState>& JobStates::ranks() const { return state_->ranks; }
bool JobStates::is_concluded() const { return tables().provenance.recorder.has_value(); }

std::optional<RingCalls> JobStates::ring(std::size_t row) const {
  const RankFiles& files = state_->files[row];
  if (!has_gone_round(files)) {
    return std::nullopt;
  }
  RingCalls ring;
  const std::vector<OpId> lanes = ops_of_lanes(files);
  const RingRemains remains = files.file->remains(lanes.size());
  ring.lost = (remains.is_whole ? 0 : 1) + files.lost_lines;
  ring.lost = saturating_sum(ring.lost,
                             static_cast<std::int64_t>(std::min<std::uint64_t>(remains.unknown, INT64_MAX)));
  for (std::size_t lane = 0; remains.is_whole && lane < remains.counts.size(); ++lane) {
    const auto count = static_cast<std::int64_t>(std::min<std::uint64_t>(remains.counts[lane], INT64_MAX));
    if (count > 0 && lanes[lane] != k_lost_op) {
      ring.before.emplace_back(lanes[lane], count);
    } else if (count > 0) {
      ++ring.lost;
    }
  }
  if (remains.is_whole) {
    add_lapped(files, remains.lapped, ring);
  }
  const std::int64_t lost = files.file->visit_records(
      files.ops, [&](OpId op, const StreamRecord& record) { ring.calls.push_back(stated_call(op, record)); },
      remains.first);
  ring.lost = saturating_sum(ring.lost, lost);
  return ring;
}

void JobStates::visit(std::size_t row, const std::function<void(const StatedCall&)>& sink) const {
  const RankFiles& files = state_->files[row];
  if (files.file) {
    files.file->visit_records(files.ops,
                              [&](OpId op, const StreamRecord& record) { sink(stated_call(op, record)); });
  }
}

}  // namespace commlens
