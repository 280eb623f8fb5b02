#include "commlens/frameworks/torch/schedule_file.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/file.hpp"
#include "commlens/config/tree.hpp"

namespace commlens::pytorch {
namespace {

using CellAct = PipelineAction::Kind;

constexpr std::int64_t k_largest_file = std::int64_t{16} << 20;
constexpr std::int64_t k_most_stages = 4096;
constexpr std::int64_t k_most_micro_batches = 100'000;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\"";
  const std::size_t first = text.find_first_not_of(blank);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(blank) - first + 1);
}

/// Takes a number of at most `most` off the beginning.
std::optional<std::int32_t> take_number(std::string_view& text, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || number < 0 || number > most) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return static_cast<std::int32_t>(number);
}

std::optional<CellAct> act_of(char letter) {
  switch (letter) {
    case 'F':
      return CellAct::forward;
    case 'B':
      return CellAct::backward;
    case 'I':
      return CellAct::backward_input;
    case 'W':
      return CellAct::backward_weight;
    default:
      return std::nullopt;
  }
}

std::optional<PipelineAction> action_of(std::string_view cell) {
  const std::optional<std::int32_t> stage = take_number(cell, k_most_stages - 1);
  const std::optional<CellAct> act = stage && !cell.empty() ? act_of(cell.front()) : std::nullopt;
  if (!act) {
    return std::nullopt;
  }
  cell.remove_prefix(1);
  const std::optional<std::int32_t> micro_batch = take_number(cell, k_most_micro_batches - 1);
  return micro_batch && cell.empty() ? std::optional(PipelineAction{*act, *stage, *micro_batch, false})
                                     : std::nullopt;
}

/// The one action of a cell, or two that overlap; nothing if it is neither.
std::optional<RankActions> actions_of(std::string_view cell) {
  constexpr std::string_view overlap = ")OVERLAP_F_B";
  if (!cell.starts_with('(')) {
    const std::optional<PipelineAction> one = action_of(cell);
    return one ? std::optional(RankActions{*one}) : std::nullopt;
  }
  const std::size_t middle = cell.find(';');
  if (!cell.ends_with(overlap) || middle == std::string_view::npos) {
    return std::nullopt;
  }
  std::optional<PipelineAction> first = action_of(trimmed(cell.substr(1, middle - 1)));
  const std::optional<PipelineAction> second =
      action_of(trimmed(cell.substr(middle + 1, cell.size() - overlap.size() - middle - 1)));
  if (!first || !second) {
    return std::nullopt;
  }
  first->is_paired = true;
  return RankActions{*first, *second};
}

Result<RankActions> row_of(std::string_view line) {
  RankActions actions;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    const std::string_view cell = trimmed(line.substr(begin, end - begin));
    begin = end + 1;
    if (cell.empty()) {
      continue;
    }
    const std::optional<RankActions> some = actions_of(cell);
    if (!some) {
      return failure(
          fmt::format("'{}' is no pass of a stage such as 0F2, 0B2, 0I2, 0W2 or "
                      "(0F3;3B1)OVERLAP_F_B; messages are added to a compute_only schedule",
                      shown_text(std::string(cell))));
    }
    actions.insert(actions.end(), some->begin(), some->end());
  }
  return actions;
}

/// Finds how stages are placed, and how many micro-batches there are.
Result<void> place(ScheduleFile& file) {
  std::map<std::int32_t, std::size_t> rank_of;
  std::int32_t last_micro_batch = 0;
  for (std::size_t rank = 0; rank < file.ranks.size(); ++rank) {
    for (const PipelineAction& each : file.ranks[rank]) {
      last_micro_batch = std::max(last_micro_batch, each.micro_batch);
      if (rank_of.try_emplace(each.stage, rank).first->second != rank) {
        return failure(fmt::format("stage {} is on two ranks", each.stage));
      }
    }
  }
  const std::size_t ranks = file.ranks.size();
  const std::size_t stages = rank_of.size();
  if (stages == 0 || stages % ranks != 0 ||
      rank_of.rbegin()->first + 1 != static_cast<std::int64_t>(stages)) {
    return failure(fmt::format("{} stages from 0 on do not give {} ranks equally many", stages, ranks));
  }
  const bool is_loop = std::all_of(rank_of.begin(), rank_of.end(), [&](const auto& each) {
    return static_cast<std::size_t>(each.first) % ranks == each.second;
  });
  file.is_v_shaped =
      !is_loop && stages == 2 * ranks && std::all_of(rank_of.begin(), rank_of.end(), [&](const auto& each) {
        const auto stage = static_cast<std::size_t>(each.first);
        return std::min(stage, stages - 1 - stage) == each.second;
      });
  if (!is_loop && !file.is_v_shaped) {
    return failure("the stages are neither in a loop over the ranks nor in a V");
  }
  file.stages_per_rank = static_cast<std::int64_t>(stages / ranks);
  file.micro_batches = last_micro_batch + 1;
  return {};
}

/// Takes passes once what they need is done, all ranks in turn.
class Order {
 public:
  explicit Order(const ScheduleFile& file)
      : file_(file),
        last_stage_(static_cast<std::int32_t>(std::ssize(file.ranks) * file.stages_per_rank) - 1),
        next_(file.ranks.size(), 0) {}

  Result<void> check() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::size_t rank = 0; rank < next_.size(); ++rank) {
        while (next_[rank] < file_.ranks[rank].size() && is_ready(rank)) {
          const std::size_t count = file_.ranks[rank][next_[rank]].is_paired ? 2 : 1;
          for (std::size_t i = 0; i < count; ++i) {
            const PipelineAction& each = file_.ranks[rank][next_[rank]++];
            if (!done_.emplace(each.kind, each.stage, each.micro_batch).second) {
              return failure(fmt::format("a pass of stage {} and micro-batch {} is twice there", each.stage,
                                         each.micro_batch));
            }
          }
          has_moved = true;
        }
      }
    }
    return all_done();
  }

 private:
  bool has(CellAct act, std::int32_t stage, std::int32_t micro_batch) const {
    return done_.contains({act, stage, micro_batch});
  }
  bool has_backward(std::int32_t stage, std::int32_t micro_batch) const {
    return has(CellAct::backward, stage, micro_batch) || has(CellAct::backward_input, stage, micro_batch);
  }
  bool is_ready(const PipelineAction& each) const {
    switch (each.kind) {
      case CellAct::forward:
        return each.stage == 0 || has(CellAct::forward, each.stage - 1, each.micro_batch);
      case CellAct::backward_weight:
        return has(CellAct::backward_input, each.stage, each.micro_batch);
      default:
        return has(CellAct::forward, each.stage, each.micro_batch) &&
               (each.stage == last_stage_ || has_backward(each.stage + 1, each.micro_batch));
    }
  }
  bool is_ready(std::size_t rank) const {
    const RankActions& actions = file_.ranks[rank];
    const PipelineAction& first = actions[next_[rank]];
    return is_ready(first) && (!first.is_paired || is_ready(actions[next_[rank] + 1]));
  }
  Result<void> all_done() const {
    for (std::size_t rank = 0; rank < next_.size(); ++rank) {
      if (next_[rank] < file_.ranks[rank].size()) {
        const PipelineAction& each = file_.ranks[rank][next_[rank]];
        return failure(
            fmt::format("rank {} waits for ever for what its pass of stage {} and micro-batch {} needs", rank,
                        each.stage, each.micro_batch));
      }
    }
    for (std::int32_t stage = 0; stage <= last_stage_; ++stage) {
      for (std::int32_t micro_batch = 0; micro_batch < file_.micro_batches; ++micro_batch) {
        const bool is_whole = has(CellAct::backward, stage, micro_batch);
        const bool is_split = has(CellAct::backward_weight, stage, micro_batch);
        if (is_whole == is_split || (is_whole && has(CellAct::backward_input, stage, micro_batch))) {
          return failure(fmt::format("stage {} needs one backward pass of micro-batch {}, whole or in halves",
                                     stage, micro_batch));
        }
      }
    }
    return {};
  }

  const ScheduleFile& file_;
  std::int32_t last_stage_;
  std::vector<std::size_t> next_;
  std::set<std::tuple<CellAct, std::int32_t, std::int32_t>> done_;
};

Result<ScheduleFile> schedule_in(std::string_view content) {
  ScheduleFile file;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    Result<RankActions> row = row_of(content.substr(begin, end - begin));
    if (!row) {
      return failure(fmt::format("{}: {}", file.ranks.size() + 1, row.error().message));
    }
    file.ranks.push_back(*std::move(row));
    begin = end + 1;
  }
  if (file.ranks.empty() || std::ssize(file.ranks) > k_most_stages) {
    return failure(fmt::format("1: a schedule has 1 to {} rows, one for each rank", k_most_stages));
  }
  const Result<void> placed = place(file);
  const Result<void> runs = placed ? Order(file).check() : placed;
  return runs ? Result<ScheduleFile>(std::move(file)) : failure("1: " + runs.error().message);
}

}  // namespace

Result<ScheduleFile> read_schedule_file(const std::filesystem::path& path) {
  const Result<std::string> content = read_text_file(path, k_largest_file);
  if (!content) {
    return tl::unexpected(content.error());
  }
  Result<ScheduleFile> file = schedule_in(*content);
  return file ? std::move(file) : failure(fmt::format("{}:{}", path.string(), file.error().message));
}

}  // namespace commlens::pytorch
