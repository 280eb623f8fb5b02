#include "commlens/live/node_spanning.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "commlens/live/node_names.hpp"

namespace commlens {
namespace {

using nlohmann::json;

constexpr JsonFields::Range k_bounds = {0, std::int64_t{1} << 56};
constexpr JsonFields::Range k_calls = {1, std::int64_t{1} << 48};
constexpr const char* k_cannot_be = "has blocks that cannot be";

}  // namespace

/// Numbers that are all in a range, so many or up to the number of blocks that are told.
std::vector<std::int64_t> SpanningReader::numbers_of(const json& row, JsonFields::Range each,
                                                     std::optional<std::size_t> size) {
  std::vector<std::int64_t> numbers;
  const bool is_good =
      row.is_array() && row.size() <= 2 * LatestBlocks::k_told + 2 &&
      row.size() == size.value_or(row.size()) &&
      std::all_of(row.begin(), row.end(), [&](const json& value) { return is_number_in(value, each); });
  if (!is_good) {
    refuse(k_cannot_be);
    return std::vector<std::int64_t>(size.value_or(0));
  }
  for (const json& value : row) {
    numbers.push_back(value.get<std::int64_t>());
  }
  return numbers;
}

void SpanningReader::read(const json& row, std::vector<SpanningWork>& all) {
  const std::string where = "spanning";
  const std::int64_t channel = fields_.number(row, where, "channel", {0, std::ssize(channels_) - 1});
  SpanningWork work{.rank = {},
                    .channel = static_cast<std::size_t>(channel),
                    .is_marked = fields_.flag(row, where, "marked", false),
                    .blocks = {}};
  const std::vector<std::int64_t> bounds =
      numbers_of(fields_.array(row, where, "bounds"), k_bounds, std::nullopt);
  const bool ascend =
      std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) == bounds.end();
  if (fields_.error || bounds.size() < 2 || bounds.size() > LatestBlocks::k_told + 1 || !ascend) {
    refuse(k_cannot_be);
    return;
  }
  if (channels_[work.channel].is_pair || channels_[work.channel].is_window) {
    refuse("is of a channel without collectives");
    return;
  }
  const std::size_t blocks = bounds.size() - 1;
  const std::vector<std::int64_t> calls = numbers_of(fields_.array(row, where, "calls"), k_calls, blocks);
  const std::vector<std::int64_t> signatures =
      numbers_of(fields_.array(row, where, "signatures"), {0, WorkBlock::k_signature}, blocks);
  work.begin = bounds[0];
  for (std::size_t block = 0; block < blocks; ++block) {
    work.blocks.push_back(
        {.end = bounds[block + 1],
         .work = {.calls = calls[block], .signature = static_cast<std::uint64_t>(signatures[block])}});
  }
  ++rows_;
  for (const json& times : fields_.array(row, where, "times")) {
    read_times(times, work, all);
  }
}

void SpanningReader::read_times(const json& times, SpanningWork work, std::vector<SpanningWork>& all) {
  const std::size_t blocks = work.blocks.size();
  const std::vector<std::int64_t> numbers = numbers_of(times, {0, k_largest_unit_of_node}, 2 + 2 * blocks);
  work.rank = Rank{numbers[0]};
  const auto rank = std::lower_bound(ranks_.begin(), ranks_.end(), work.rank);
  if (rank == ranks_.end() || *rank != work.rank) {
    refuse("has a rank that there is not");
    return;
  }
  Told& told = told_[static_cast<std::size_t>(rank - ranks_.begin())];
  if (told.row == rows_ || told.works >= SpanningWork::k_most_of_rank) {
    refuse("has a rank too often");
    return;
  }
  told = {.works = told.works + 1, .row = rows_};
  const auto is_long = [](std::int64_t time) { return time > k_longest_time_of_node; };
  if (numbers[1] < 1 || std::any_of(numbers.begin() + 2, numbers.end(), is_long)) {
    refuse(k_cannot_be);
    return;
  }
  for (std::size_t block = 0; block < blocks; ++block) {
    work.blocks[block].work.between_ns = numbers[2 + block] * numbers[1];
    work.blocks[block].work.in_calls_ns = numbers[2 + blocks + block] * numbers[1];
  }
  all.push_back(std::move(work));
}

}  // namespace commlens
