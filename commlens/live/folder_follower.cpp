#include "commlens/live/folder_follower.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/plain_file.hpp"
#include "commlens/base/sums.hpp"
#include "commlens/live/hang_watch.hpp"
#include "commlens/live/rank_follower.hpp"
#include "commlens/live/rank_processes.hpp"
#include "commlens/live/view_builder.hpp"
#include "commlens/trace/table_limits.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;
using std::chrono::nanoseconds;

// A job on other machines that has written nothing for so long is not called running.
constexpr std::chrono::seconds k_lately(10);
// Asking the kernel for every process costs more than a poll.
constexpr std::chrono::milliseconds k_between_looks(500);

std::optional<std::string> text_in(const PlainFile& directory, const fs::path& name) {
  const PlainFile file = PlainFile::open_in(directory, name);
  const std::optional<PlainFile::Look> look = file.look();
  if (!look || look->bytes > static_cast<std::uint64_t>(k_largest_tables)) {
    return std::nullopt;
  }
  std::string text(look->bytes, '\0');
  text.resize(file.read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

/// Ascending.
std::vector<Rank> ranks_with_files(const fs::path& folder) {
  constexpr std::string_view begin = "rank-";
  constexpr std::string_view end = ".jsonl";
  std::vector<Rank> ranks;
  std::error_code cause;
  for (fs::directory_iterator entry(folder, cause); !cause && entry != fs::directory_iterator();
       entry.increment(cause)) {
    const std::string name = entry->path().filename().string();
    if (name.size() <= begin.size() + end.size() || !name.starts_with(begin) || !name.ends_with(end)) {
      continue;
    }
    std::int32_t rank = -1;
    const char* const last = name.data() + name.size() - end.size();
    const auto [rest, error] = std::from_chars(name.data() + begin.size(), last, rank);
    if (error == std::errc() && rest == last && rank >= 0) {
      ranks.push_back(Rank{rank});
    }
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string name_of_folder(const fs::path& path) {
  std::error_code unknown;
  const fs::path absolute = fs::absolute(path, unknown);
  const fs::path whole = (unknown ? path : absolute).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

}  // namespace

PollTime PollTime::now() {
  using std::chrono::duration_cast;
  return {.steady = duration_cast<nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()),
          .unix_ns = duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count()};
}

struct FolderFollower::State {
  State(fs::path directory, FollowOptions with) : path(std::move(directory)), options(with), watch(with) {}

  Result<void> open_folder();
  Result<void> read_manifest();
  void say(const fs::path& what, int cause);
  void look_for_ranks();
  void begin(Manifest manifest);
  void forget();
  bool poll_ranks(const PollTime& time);
  bool look_at_ranks(const PollTime& time);
  bool is_final(const RankFollower& rank, std::size_t row) const;
  LiveState job_state(const PollTime& time) const;
  void build(const PollTime& time);
  void count_losses();
  void set_window(const PollTime& time);

  fs::path path;
  FollowOptions options;
  HangWatch watch;
  JobView view;

  std::optional<PlainFile::Look> folder;
  std::optional<PlainFile::Look> manifest;  // that was read
  std::unique_ptr<FollowedJob> job;
  std::vector<std::unique_ptr<RankFollower>> ranks;
  std::vector<ProcessState> processes;  // of `ranks`
  std::optional<nanoseconds> processes_at;
  std::vector<bool> is_counted;  // by the manifest: the recording of this rank was concluded
  bool is_concluded = false;
  std::optional<nanoseconds> began;
};

/// The folder that has the name now: the same, another, or none.
Result<void> FolderFollower::State::open_folder() {
  const std::optional<PlainFile::Look> now = PlainFile::look_at(path);
  const int cause = now ? 0 : errno;
  if (job && now && folder && now->is_same_file(*folder)) {
    view.state = view.state == LiveState::removed ? LiveState::absent : view.state;
    return {};
  }
  if (!now && cause != ENOENT && cause != ENOTDIR) {  // a network's file system may have it again soon
    say(path, cause);
    return {};
  }
  if (!now) {
    view.state = view.generation > 0 ? LiveState::removed : LiveState::absent;
    view.ranks.clear();
    view.hang = {};
    return {};
  }
  PlainFile directory = PlainFile::open_directory(path);
  if (!directory.is_open()) {
    say(path, directory.cause());
    return directory.cause() == ENOTDIR
               ? failure(fmt::format("{}: not a directory, so no commlens trace", path.string()))
               : Result<void>();
  }
  forget();
  folder = directory.look();
  job = std::make_unique<FollowedJob>(Trace(), std::vector<Rank>());
  job->directory = std::move(directory);
  return {};
}

/// Why something is not read now.
void FolderFollower::State::say(const fs::path& what, int cause) {
  view.error = fmt::format("{}: {}", what.string(), std::strerror(cause));
}

/// Another recording is in the place of the one before, whose numbers are shown until it has begun.
void FolderFollower::State::forget() {
  view.state = LiveState::absent;
  view.job_id.clear();
  view.ranks.clear();
  view.hang = {};
  view.alerts.clear();
  ranks.clear();
  processes.clear();
  processes_at.reset();
  manifest.reset();
  is_counted.clear();
  is_concluded = false;
  began.reset();
  watch.forget();
}

/// Reads the manifest where it has changed.
Result<void> FolderFollower::State::read_manifest() {
  const PlainFile file = PlainFile::open_in(job->directory, fs::path(k_manifest_name));
  if (!file.is_open() && file.cause() != ENOENT) {
    say(path / k_manifest_name, file.cause());
  }
  const std::optional<PlainFile::Look> now = file.look();
  if (file.cause() == ENOENT && !manifest) {
    look_for_ranks();
  }
  if (!now || now->bytes == 0 || (manifest && *now == *manifest)) {
    return {};
  }
  const std::optional<std::string> text = text_in(job->directory, fs::path(k_manifest_name));
  Result<Manifest> read = manifest_from(text.value_or(""), path / k_manifest_name);
  if (!read) {
    view.error = read.error().message;
    return view.generation == 0 && options.is_single ? Result<void>(tl::unexpected(read.error()))
                                                     : Result<void>();
  }
  const bool is_recording =
      !read->streams.empty() && std::all_of(read->streams.begin(), read->streams.end(),
                                            [](const StreamEntry& entry) { return !entry.tables.empty(); });
  if (!is_recording) {
    return failure(fmt::format("{}: no recording; only a recording can be followed", path.string()));
  }
  begin(std::move(*read));
  manifest = now;
  return {};
}

/// A folder of a node that is not rank 0's has no manifest, and the files of its own ranks alone.
void FolderFollower::State::look_for_ranks() {
  std::vector<Rank> found = ranks_with_files(path);
  const auto is_there = [&](Rank rank) { return std::binary_search(found.begin(), found.end(), rank); };
  if (found.empty() || found == job->ranks || !std::all_of(job->ranks.begin(), job->ranks.end(), is_there)) {
    return;  // they are removed one by one
  }
  const bool has_more = !job->ranks.empty();
  Manifest made{.tables = {}, .ops = {}, .streams = recording_streams(found)};
  made.tables.provenance.source = Source::recorded;
  made.tables.provenance.job_ranks = k_max_ranks;  // not known: no group is taken for that of all
  begin(std::move(made));
  view.generation -= has_more ? 1 : 0;  // it is still the same recording
}

/// With a manifest of the same ranks the recording is the one that was followed: its command has ended.
void FolderFollower::State::begin(Manifest read) {
  std::vector<Rank> numbers;
  for (const StreamEntry& entry : read.streams) {
    numbers.push_back(entry.ranks.first);
  }
  const bool has_ended = read.tables.provenance.recorder.has_value();
  view.producer = read.tables.provenance.producer;
  view.description = read.tables.provenance.description;
  if (ranks.empty() || numbers != job->ranks) {
    PlainFile directory = std::move(job->directory);
    forget();
    job = std::make_unique<FollowedJob>(std::move(read.tables), numbers);
    std::int64_t& job_ranks = job->tables.provenance.job_ranks;
    job_ranks = job_ranks > 0 || numbers.empty() ? job_ranks : numbers.back().value + 1;
    job->path = path;
    job->directory = std::move(directory);
    job->keeps_iterations = options.keeps_iterations;
    job->keeps_times = options.keeps_times;
    ++view.generation;
  }
  is_concluded = has_ended;
  is_counted.clear();
  for (std::size_t row = 0; row < numbers.size(); ++row) {
    is_counted.push_back(read.streams[row].events.has_value());
    if (row < ranks.size()) {
      ranks[row]->set_entry(read.streams[row]);
    } else {
      ranks.push_back(std::make_unique<RankFollower>(*job, row, read.streams[row]));
    }
  }
  processes.resize(ranks.size(), ProcessState::unknown);
}

/// Whether nothing more will come of a rank.
bool FolderFollower::State::is_final(const RankFollower& rank, std::size_t row) const {
  return options.is_single || is_counted[row] || rank.tables().closing ||
         processes[row] == ProcessState::gone;
}

/// False: another recording is in the files of this one.
bool FolderFollower::State::poll_ranks(const PollTime& time) {
  job->tally.set_second(std::chrono::floor<std::chrono::seconds>(time.steady).count());
  for (std::size_t row = 0; row < ranks.size(); ++row) {
    if (!ranks[row]->look(time.steady, is_final(*ranks[row], row))) {
      return false;
    }
  }
  bool is_more = true;
  while (is_more) {
    is_more = false;
    for (std::size_t row = 0; row < ranks.size(); ++row) {
      is_more = ranks[row]->read_some(time.steady) || is_more;
    }
    job->late.mark();
  }
  return true;
}

LiveState FolderFollower::State::job_state(const PollTime& time) const {
  const auto is_there = [](const auto& rank) { return rank->is_there(); };
  if (std::none_of(ranks.begin(), ranks.end(), is_there)) {
    return is_concluded ? LiveState::stopped : LiveState::absent;
  }
  const bool have_ended = std::all_of(ranks.begin(), ranks.end(), [](const auto& rank) {
    return rank->tables().closing.has_value() && rank->is_done();
  });
  if (have_ended) {
    return LiveState::ended;
  }
  if (has_live_rank(view.hang.job, view.hang.processes)) {
    return LiveState::running;
  }
  const bool are_gone = std::all_of(processes.begin(), processes.end(),
                                    [](ProcessState state) { return state == ProcessState::gone; });
  if (are_gone || is_concluded) {
    return LiveState::stopped;
  }
  const bool has_moved = std::any_of(ranks.begin(), ranks.end(), [&](const auto& rank) {
    return rank->is_there() && time.steady - rank->moved() < k_lately;
  });
  return has_moved && !options.is_single ? LiveState::running : LiveState::unknown;
}

void FolderFollower::State::count_losses() {
  view.lost.clear();
  view.watcher.records = 0;
  view.watcher.unread = 0;
  view.watcher.unfollowed_calls = 0;
  for (const std::unique_ptr<RankFollower>& rank : ranks) {
    for (const auto& [reason, calls] : rank->lost()) {
      std::int64_t& count = view.lost[reason];
      count = saturating_sum(count, calls);
    }
    view.watcher.records += rank->read();
    view.watcher.unread = saturating_sum(view.watcher.unread, rank->unread());
    view.watcher.unfollowed_calls += rank->unfollowed();
  }
}

/// What is in the window, which ends now, has been read since the first poll.
void FolderFollower::State::set_window(const PollTime& time) {
  began = began.value_or(time.steady);
  const nanoseconds second = std::chrono::floor<std::chrono::seconds>(time.steady);
  const nanoseconds first = second - (k_live_window - std::chrono::seconds(1));
  view.window = time.steady - std::max(first, *began);
}

/// What the kernel says of the processes. Of those that are gone now, what they wrote last is read first:
/// else a job that ends well might seem killed. False as poll_ranks().
bool FolderFollower::State::look_at_ranks(const PollTime& time) {
  LiveHang& hang = view.hang;
  hang.job = progress_of(*job, ranks);
  if (processes_at && time.steady - *processes_at < k_between_looks) {
    return true;
  }
  processes_at = time.steady;
  hang.processes = look_at_processes(hang.job);
  bool is_news = false;
  for (std::size_t row = 0, at = 0; row < hang.job.ranks.size() && at < ranks.size(); ++row) {
    if (hang.job.ranks[row].state.rank == job->ranks[at]) {
      const ProcessState now = hang.processes[row];
      is_news = is_news || (now == ProcessState::gone && processes[at] != now);
      processes[at++] = now;
    }
  }
  if (is_news) {
    const bool is_same = poll_ranks(time);
    hang.job = progress_of(*job, ranks);
    return is_same;
  }
  return true;
}

void FolderFollower::State::build(const PollTime& time) {
  LiveHang& hang = view.hang;
  hang.processes.resize(hang.job.ranks.size(), ProcessState::unknown);
  std::vector<nanoseconds> moved(hang.job.ranks.size());
  for (std::size_t row = 0, at = 0; row < hang.job.ranks.size(); ++row) {
    if (at < ranks.size() && hang.job.ranks[row].state.rank == job->ranks[at]) {
      hang.processes[row] = processes[at];
      moved[row] = ranks[at++]->moved();
    }
  }
  mark_halted(hang.job, hang.processes);
  view.state = job_state(time);
  hang.pause_left = {};
  for (const std::unique_ptr<RankFollower>& rank : ranks) {
    const bool has_ended = rank->tables().has_begun_to_end || rank->tables().closing;
    hang.pause_left = has_ended ? hang.pause_left : std::max(hang.pause_left, rank->pause_left(time));
  }
  hang.is_part = options.is_part || !manifest;
  watch.look(hang, moved, time.steady, view.state);
  watch.alert(view, time.unix_ns);
  fill_ranks(view, *job, ranks, time);
  view.ops = job->tally.ops();
  view.totals = total_of(view.ops, &LiveOp::sums);
  view.recent = total_of(view.ops, &LiveOp::recent);
  const auto leads = [](const auto& rank) { return rank->steps().has_any(); };
  const auto leader = std::find_if(ranks.begin(), ranks.end(), leads);
  view.steps = leader == ranks.end() ? LiveSteps() : (*leader)->steps().steps();
  for (const std::unique_ptr<RankFollower>& rank : ranks) {
    view.steps.iteration = std::max(view.steps.iteration, rank->iteration());
    const std::optional<RankProcess>& process = rank->tables().process;
    if (view.job_id.empty() && process) {
      view.job_id = process->job_id;
    }
  }
}

FolderFollower::FolderFollower(fs::path directory, FollowOptions options)
    : state_(std::make_unique<State>(std::move(directory), options)) {
  state_->view.name = name_of_folder(state_->path);
}
FolderFollower::FolderFollower(FolderFollower&&) noexcept = default;
FolderFollower& FolderFollower::operator=(FolderFollower&&) noexcept = default;
FolderFollower::~FolderFollower() = default;

const JobView& FolderFollower::view() const { return state_->view; }

Iteration FolderFollower::whole_iteration() const {
  Iteration whole = INT32_MAX;
  for (const std::unique_ptr<RankFollower>& rank : state_->ranks) {
    whole = std::min(whole, rank->whole_iteration());
  }
  return state_->ranks.empty() ? k_unknown_iteration : whole;
}

std::optional<Trace> FolderFollower::iteration(Iteration wanted) const {
  std::vector<RankStream> streams;
  std::size_t calls = 0;
  for (std::size_t row = 0; row < state_->ranks.size(); ++row) {
    std::optional<TimedCalls> of_rank = state_->ranks[row]->latest_iterations().of(wanted);
    if (!of_rank) {
      return std::nullopt;
    }
    calls += of_rank->events.size();
    const Rank rank = state_->job->ranks[row];
    streams.push_back({.ranks = {rank, rank},
                       .events = std::move(of_rank->events),
                       .times = std::move(of_rank->times),
                       .compute = {}});
  }
  if (calls == 0) {
    return std::nullopt;
  }
  Trace trace = state_->job->tables;
  trace.streams = std::move(streams);
  return trace;
}

Trace FolderFollower::latest_calls() const {
  Trace trace = state_->job ? state_->job->tables : Trace();
  for (std::size_t row = 0; row < state_->ranks.size(); ++row) {
    const Rank rank = state_->job->ranks[row];
    trace.streams.push_back({.ranks = {rank, rank},
                             .events = state_->ranks[row]->latest_iterations().outside(),
                             .times = {},
                             .compute = {}});
  }
  return trace;
}

Result<void> FolderFollower::poll(PollTime time) {
  State& state = *state_;
  const auto began = std::chrono::steady_clock::now();
  ++state.view.watcher.polls;
  state.view.error.clear();
  return state.open_folder()
      .and_then([&]() -> Result<void> {
        const bool is_gone = state.view.state == LiveState::removed || !state.job;
        return is_gone ? Result<void>() : state.read_manifest();
      })
      .map([&] {
        if (state.view.state == LiveState::removed || state.ranks.empty()) {
          state.watch.alert(state.view, time.unix_ns);
          return;
        }
        if (!state.poll_ranks(time) || !state.look_at_ranks(time)) {
          state.forget();
          return;
        }
        state.build(time);
        state.count_losses();
        state.set_window(time);
      })
      .map([&] {
        LiveWatcher& watcher = state.view.watcher;
        watcher.took = std::chrono::steady_clock::now() - began;
        watcher.busy += watcher.took;
      });
}

}  // namespace commlens
