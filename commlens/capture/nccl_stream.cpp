#include "commlens/capture/nccl_stream.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/capture/environment.hpp"
#include "commlens/capture/nccl_job.hpp"
#include "commlens/trace/table_text.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens::capture {
namespace {

constexpr std::int64_t k_largest_tables = std::int64_t{1} << 28;

/// The number after `key` in a line that RankTablesFile has written.
std::optional<std::int64_t> number_in(std::string_view line, std::string_view key) {
  const std::string sought = fmt::format("\"{}\": ", key);
  const std::size_t at = line.find(sought);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::int64_t value = 0;
  const char* const start = line.data() + at + sought.size();
  return std::from_chars(start, line.data() + line.size(), value).ec == std::errc() ? std::optional(value)
                                                                                    : std::nullopt;
}

void set_number(std::string& line, std::string_view key, std::int64_t value) {
  const std::string sought = fmt::format("\"{}\": ", key);
  const std::size_t start = line.find(sought) + sought.size();
  const std::size_t end = line.find_first_not_of("0123456789", start);
  line.replace(start, end - start, fmt::format("{}", value));
}

/// The members of a group, when by now all are known.
std::optional<std::vector<Rank>> members_of(const std::filesystem::path& directory,
                                            const GroupOfComm& group) {
  const std::size_t most = group.size > 0 ? static_cast<std::size_t>(group.size) : std::size_t{1} << 20;
  std::vector<Rank> all;
  for (const std::optional<Rank>& rank : published_members(directory, group.comm, most)) {
    all.push_back(rank.value_or(Rank{-1}));
  }
  if (group.is_likely_world) {  // the other machines' directories are not to be seen from here
    all.resize(static_cast<std::size_t>(group.size), Rank{-1});
    for (std::size_t member = 0; member < all.size(); ++member) {
      all[member] = all[member] == Rank{-1} ? Rank{static_cast<std::int64_t>(member)} : all[member];
    }
  }
  const auto is_missing = [&](int member) {
    return static_cast<std::size_t>(member) >= all.size() ||
           all[static_cast<std::size_t>(member)] == Rank{-1};
  };
  if (group.shape == GroupOfComm::Shape::whole) {
    const int size = group.size > 0 ? group.size : static_cast<int>(all.size());
    for (int member = 0; member < size; ++member) {
      if (is_missing(member)) {
        return std::nullopt;
      }
    }
    return all.empty() ? std::nullopt : std::optional(all);
  }
  if (is_missing(group.peer) || is_missing(group.rank)) {
    return std::nullopt;
  }
  const Rank here = all[static_cast<std::size_t>(group.rank)];
  const Rank there = all[static_cast<std::size_t>(group.peer)];
  return group.shape == GroupOfComm::Shape::to_peer ? std::vector{here, there} : std::vector{there, here};
}

std::string group_line(const std::vector<Rank>& members, Axis axis, CommunicatorId communicator,
                       std::uint32_t row) {
  std::string line = "{\"group\": ";
  append_group_row(line, members, axis, communicator);
  return line + fmt::format(", \"row\": {}}}", row);
}

/// Puts what was not known when a rank's tables were written into them, line by line.
class TablesCorrection {
 public:
  TablesCorrection(const NcclStream& stream, const std::map<std::uint32_t, GroupOfComm>& unresolved,
                   std::int64_t job_ranks)
      : stream_(stream) {
    for (const auto& [row, group] : unresolved) {
      const std::optional<std::vector<Rank>> members = members_of(stream.directory(), group);
      if (members) {
        const bool is_whole = group.shape == GroupOfComm::Shape::whole;
        const bool is_world = is_whole && static_cast<std::int64_t>(members->size()) == job_ranks;
        const bool is_self = is_whole && members->size() == 1;
        const Axis axis = is_self ? Axis::self : is_world ? Axis::world : Axis::unknown;
        groups_known_[row] =
            group_line(*members, axis, is_self ? k_no_communicator : group.communicator, row);
      }
      if (group.size == 0 && group.shape == GroupOfComm::Shape::whole) {
        sizes_[row] = members ? static_cast<std::int64_t>(members->size()) : 0;
      }
    }
  }

  std::string corrected(std::string_view line) {
    if (line.starts_with("{\"group\"")) {
      const auto found = groups_known_.find(groups_++);
      return found == groups_known_.end() ? std::string(line) : found->second;
    }
    if (line.starts_with("{\"op\"")) {
      return corrected_op(std::string(line));
    }
    return std::string(line);
  }

 private:
  /// A call of a communicator whose size was not known: the whole is as many parts as there are members.
  std::string corrected_op(std::string line) const {
    const std::optional<std::int64_t> note = number_in(line, "note");
    const std::optional<std::int64_t> group = number_in(line, "group");
    if (!group || !note || (*note != row_of(NcclNote::size_unknown) && *note != row_of(NcclNote::both))) {
      return line;
    }
    const auto size = sizes_.find(static_cast<std::uint32_t>(*group));
    if (size == sizes_.end() || size->second == 0) {
      return line;
    }
    const std::int64_t input = number_in(line, "input_elements").value_or(0);
    const std::int64_t output = number_in(line, "output_elements").value_or(0);
    if (line.find("\"all_gather\"") != std::string::npos) {
      set_number(line, "output_elements", input * size->second);
    } else if (line.find("\"reduce_scatter\"") != std::string::npos) {
      set_number(line, "input_elements", output * size->second);
    }
    set_number(line, "note", *note == row_of(NcclNote::both) ? row_of(NcclNote::enqueued) : 0);
    return line;
  }
  std::int64_t row_of(NcclNote note) const { return static_cast<std::int64_t>(stream_.note(note)); }

  const NcclStream& stream_;
  std::map<std::uint32_t, std::string> groups_known_;  // the line, by row of the group
  std::map<std::uint32_t, std::int64_t> sizes_;        // that were not known then; 0: nor are now
  std::uint32_t groups_ = 0;
};

/// Calls `take` with each whole line.
template <typename Take>
void each_line(std::string_view text, const Take& take) {
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    take(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
}

}  // namespace

NcclStream::NcclStream(std::filesystem::path directory, Rank self, std::uint32_t index)
    : directory_(std::move(directory)),
      self_(self),
      index_(index),
      clock_(Clock::of_process()),
      recorder_(directory_, self, {.ring_records = asked_ring()}),
      sites_(CallSites::if_asked(recorder_)) {
  std::transform(k_nccl_notes.begin(), k_nccl_notes.end(), notes_.begin(),
                 [this](std::string_view text) { return recorder_.name(text); });
}

NameId NcclStream::name(NcclFunction function) {
  NameId& known = names_.at(static_cast<std::size_t>(function));
  if (known == NameId{}) {
    known = recorder_.name(name_of(function));
  }
  return known;
}

GroupId NcclStream::unresolved(const GroupOfComm& group, const std::vector<Rank>& members) {
  const GroupId id =
      recorder_.group(members, members.size() == 1 ? Axis::self : Axis::unknown, group.communicator);
  unresolved_.emplace(static_cast<std::uint32_t>(id), group);
  return id;
}

Rank NcclStream::strangers(int count) {
  if (next_stranger_ + count > k_max_ranks) {
    next_stranger_ = k_first_stranger.value;
  }
  return Rank{std::exchange(next_stranger_, next_stranger_ + count)};
}

void NcclStream::finish(Recorder::Slot slot, const RecordedCall& call, const Times& times,
                        const Position& position) {
  const Position now = this->position();
  recorder_.set_phase(position.phase, position.micro_batch);
  recorder_.finish(slot, call, times);
  recorder_.set_phase(now.phase, now.micro_batch);
}

void NcclStream::correct_tables(std::int64_t job_ranks) const {
  const std::filesystem::path file = directory_ / fmt::format("rank-{}.jsonl", self_.value);
  const Result<std::string> text = read_text_file(file, k_largest_tables);
  if (!text) {
    return;
  }
  TablesCorrection correction(*this, unresolved_, job_ranks);
  std::string corrected;
  each_line(*text, [&](std::string_view line) { corrected += correction.corrected(line) + "\n"; });
  if (corrected != *text) {
    write_file_atomically(file, corrected);
  }
}

void NcclStream::close(std::int64_t job_ranks) noexcept {
  const Turn turn(*this);
  if (calls_ > 0) {  // in which the recorder's own part is included
    recorder_.add_cost(std::chrono::nanoseconds((spent_ns_ + calls_ - 1) / calls_) -
                       recorder_.cost_per_call());
  }
  recorder_.close();
  if (unresolved_.empty()) {
    return;
  }
  try {
    correct_tables(job_ranks);
  } catch (const std::exception&) {
    return;  // the tables stay as they were: members that are not known have numbers of their own
  }
}

}  // namespace commlens::capture
