#include "commlens/network/max_min.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "commlens/base/check.hpp"

namespace commlens {
namespace {

// A cap that a link allows but for rounding is allowed.
constexpr double k_rounding = 1e-12;

}  // namespace

MaxMin::MaxMin(std::vector<double> capacities)
    : capacities_(std::move(capacities)), place_(capacities_.size(), -1) {
  for (const double capacity : capacities_) {
    COMMLENS_CHECK(capacity > 0 && std::isfinite(capacity), "a link has a capacity");
  }
}

void MaxMin::clear() {
  users_.clear();
  uses_.clear();
}

void MaxMin::add(std::span<const LinkUse> uses, double weight, double cap) {
  COMMLENS_CHECK(weight > 0 && cap >= 0, "a user has a weight");
  COMMLENS_CHECK(!uses.empty() || cap < k_no_cap, "something limits each user");
  for (const LinkUse& use : uses) {
    COMMLENS_CHECK(use.link >= 0 && static_cast<std::size_t>(use.link) < capacities_.size() && use.amount > 0,
                   "users take links of the network");
  }
  const std::size_t first = uses_.size();
  uses_.insert(uses_.end(), uses.begin(), uses.end());
  users_.push_back(
      {.first = first, .last = uses_.size(), .weight = weight, .cap = cap, .bound = cap / weight});
}

double MaxMin::share_of(Left& left) const {
  // Where little is left of a sum, it is summed up again: differences would be rounding errors.
  if (constexpr double k_little = 1e-6; left.weight < k_little * left.weight_before) {
    left.weight = 0;
    for (std::size_t at = left.first; at < left.last; ++at) {
      const std::size_t user = users_of_[at];
      const bool is_again = at > left.first && users_of_[at - 1] == user;  // it takes the link twice
      left.weight += is_settled(user) || is_again ? 0 : users_[user].weight * amount_of(user, left.link);
    }
    left.weight_before = left.weight;
  }
  return std::max(left.capacity, 0.0) / left.weight;
}

double MaxMin::amount_of(std::size_t user, LinkId link) const {
  double amount = 0;
  for (std::size_t at = users_[user].first; at < users_[user].last; ++at) {
    amount += uses_[at].link == link ? uses_[at].amount : 0;
  }
  return amount;
}

void MaxMin::find_links() {
  left_.clear();
  use_at_.resize(uses_.size());
  for (const User& user : users_) {
    for (std::size_t at = user.first; at < user.last; ++at) {
      const LinkId link = uses_[at].link;
      std::int32_t& place = place_[static_cast<std::size_t>(link)];
      if (place < 0) {
        place = static_cast<std::int32_t>(left_.size());
        left_.push_back({.link = link, .capacity = capacities_[static_cast<std::size_t>(link)]});
      }
      Left& left = left_[static_cast<std::size_t>(place)];
      left.weight += user.weight * uses_[at].amount;
      ++left.unsettled;
      use_at_[at] = place;
    }
  }
  for (Left& left : left_) {
    left.weight_before = left.weight;
    place_[static_cast<std::size_t>(left.link)] = -1;
  }
}

void MaxMin::find_users_of_links() {
  std::size_t first = 0;
  for (Left& left : left_) {
    left.first = first;
    left.last = first;
    first += left.unsettled;
  }
  users_of_.resize(uses_.size());
  for (std::size_t user = 0; user < users_.size(); ++user) {
    for (std::size_t at = users_[user].first; at < users_[user].last; ++at) {
      users_of_[left_[static_cast<std::size_t>(use_at_[at])].last++] = static_cast<std::uint32_t>(user);
    }
  }
}

void MaxMin::settle(std::size_t user, double level) {
  const User& settled = users_[user];
  levels_[user] = level;
  for (std::size_t at = settled.first; at < settled.last; ++at) {
    Left& left = left_[static_cast<std::size_t>(use_at_[at])];
    left.capacity -= level * uses_[at].amount;
    left.weight -= settled.weight * uses_[at].amount;
    --left.unsettled;
  }
}

void MaxMin::settle_bounded(double share) {
  for (; next_bounded_ < by_bound_.size(); ++next_bounded_) {
    const std::size_t user = by_bound_[next_bounded_];
    if (users_[user].bound > share * (1 + k_rounding)) {
      return;
    }
    if (!is_settled(user)) {
      settle(user, users_[user].cap);
    }
  }
}

void MaxMin::settle_users_of(const Left& left, double share) {
  for (std::size_t at = left.first; at < left.last; ++at) {
    if (!is_settled(users_of_[at])) {
      settle(users_of_[at], share * users_[users_of_[at]].weight);
    }
  }
}

void MaxMin::begin() {
  find_links();
  find_users_of_links();
  levels_.assign(users_.size(), k_not_settled);
  by_bound_.clear();
  next_bounded_ = 0;
  for (std::size_t user = 0; user < users_.size(); ++user) {
    if (users_[user].bound < k_no_cap) {
      by_bound_.push_back(static_cast<std::uint32_t>(user));
    }
  }
  std::ranges::stable_sort(by_bound_, {}, [&](std::uint32_t user) { return users_[user].bound; });
  heap_.clear();
  for (std::size_t at = 0; at < left_.size(); ++at) {
    heap_.push_back({share_of(left_[at]), static_cast<std::int32_t>(at)});
  }
  std::ranges::make_heap(heap_, std::greater<>());
}

std::span<const double> MaxMin::solve() {
  begin();
  while (!heap_.empty()) {
    settle_bounded(heap_.front().share);
    std::ranges::pop_heap(heap_, std::greater<>());
    Candidate& candidate = heap_.back();
    Left& left = left_[static_cast<std::size_t>(candidate.at)];
    if (left.unsettled == 0) {
      heap_.pop_back();
      continue;
    }
    // Shares only rise while users are settled: one that is out of date stands too early, never too late.
    if (const double share = share_of(left); share > candidate.share) {
      candidate.share = share;
      std::ranges::push_heap(heap_, std::greater<>());
      continue;
    }
    settle_users_of(left, candidate.share);
    heap_.pop_back();
  }
  settle_bounded(k_no_cap);
  return levels_;
}

}  // namespace commlens
