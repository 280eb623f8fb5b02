#include "commlens/trace/job_states.hpp"

#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/trace/manifest.hpp"
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
};

/// What the tables of a rank say of it.
void take_tables(RankTables& tables, RankState& rank) {
  rank.process = std::move(tables.process);
  rank.boot = std::move(tables.clock.boot);
  rank.has_begun_to_end = tables.has_begun_to_end;
  rank.has_ended = tables.closing.has_value();
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
    if (state->files.back().file) {
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

void JobStates::visit(std::size_t row, const std::function<void(const StatedCall&)>& sink) const {
  const RankFiles& files = state_->files[row];
  if (files.file) {
    files.file->visit_records(files.ops,
                              [&](OpId op, const StreamRecord& record) { sink(stated_call(op, record)); });
  }
}

}  // namespace commlens
