#include "commlens/summary/slow_ranks.hpp"

#include <algorithm>
#include <utility>

#include "commlens/base/sums.hpp"

namespace commlens {
namespace {

constexpr std::int64_t k_least_rest = k_block_calls / 8;  // calls of a last, shorter block

/// The middle of some numbers, of an even count the lower middle.
std::int64_t lower_median(std::vector<std::int64_t>& numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>((numbers.size() - 1) / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

/// The lower middle of one number of each member.
template <typename NumberOf>
std::int64_t median_of(const std::vector<BlockComparison::Part>& block, const NumberOf& number_of) {
  std::vector<std::int64_t> numbers;
  for (const BlockComparison::Part& part : block) {
    numbers.push_back(number_of(part));
  }
  return lower_median(numbers);
}

}  // namespace

BlockComparison::BlockComparison(GroupWork group, std::vector<std::int64_t*> held)
    : work_(std::move(group)), parts_(std::move(held)) {
  block_.resize(work_.members.size());
  members_.resize(work_.members.size());
}

void BlockComparison::compare() {
  parts_.match(
      [&](const std::vector<Part>& parts, std::int64_t /*label*/, std::int64_t /*k*/) { add(parts); });
}

void BlockComparison::finish() {
  compare();
  const std::int64_t rest = block_.front().calls;
  if (rest >= k_least_rest || (work_.blocks == 0 && rest > 1)) {
    compare_block();
  }
  work_.differing += parts_.incomplete() + parts_.lost();
}

void BlockComparison::add(const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    if (part.calls != parts.front().calls || part.signature != parts.front().signature) {
      ++work_.differing;
      return;
    }
  }
  for (std::size_t member = 0; member < parts.size(); ++member) {
    block_[member].add(parts[member]);
  }
  if (block_.front().calls >= k_block_calls) {
    compare_block();
  }
}

void BlockComparison::compare_block() {
  ++work_.blocks;
  work_.calls += block_.front().calls;
  const std::int64_t median = median_of(block_, [](const Part& part) { return part.between_ns; });
  const std::int64_t median_in_calls = median_of(block_, [](const Part& part) { return part.in_calls_ns; });
  const std::int64_t spread = median_of(block_, [&](const Part& part) {
    return part.between_ns > median ? part.between_ns - median : median - part.between_ns;
  });
  constexpr std::int64_t of_median = 20;
  constexpr std::int64_t of_block = 100;
  std::int64_t largest = 0;
  for (const Part& part : block_) {
    largest = std::max(largest, part.between_ns - median);
  }
  const std::int64_t least =
      std::max({median / of_median, saturating_product(spread, std::int64_t{3}), (largest - 1) / 2});
  bool has_slow = false;
  for (std::size_t member = 0; member < block_.size(); ++member) {
    const Part& part = block_[member];
    const std::int64_t excess = part.between_ns - median;
    const bool is_slow = excess > least && part.in_calls_ns <= median_in_calls &&
                         excess > (part.between_ns + part.in_calls_ns) / of_block;
    if (is_slow) {
      ++members_[member].slow;
      members_[member].excess_ns = saturating_sum(members_[member].excess_ns, excess);
    }
    has_slow |= is_slow;
  }
  work_.slow_blocks += has_slow ? 1 : 0;
  std::fill(block_.begin(), block_.end(), Part{});
}

std::optional<CallParts::Given> CallParts::ended(std::int64_t label, bool counts, std::uint64_t signature,
                                                 const RankTime::Totals& totals) {
  std::optional<Given> given;
  if (label > label_ || !counts || part_.calls == k_block_calls) {
    given = finish();
  }
  label_ = std::max(label_, label);
  if (!counts) {
    has_mark_ = false;
    return given;
  }
  if (!has_mark_) {
    has_mark_ = true;
    mark_ = totals;
  }
  ++part_.calls;
  part_.signature += signature;
  last_ = totals;
  return given;
}

std::optional<CallParts::Given> CallParts::finish() {
  if (part_.calls == 0) {
    return std::nullopt;
  }
  part_.between_ns = last_.between_ns - mark_.between_ns;
  part_.in_calls_ns = last_.in_calls_ns - mark_.in_calls_ns;
  mark_ = last_;
  return Given{label_, std::exchange(part_, {})};
}

void CallParts::restart() {
  has_mark_ = false;
  part_ = {};
}

void GroupStrand::give(const std::optional<CallParts::Given>& given) {
  if (!given) {
    return;
  }
  comparison_->parts().push(member_, given->label, given->part);
  if (comparison_->parts().is_ready()) {
    comparison_->compare();
  }
}

}  // namespace commlens
