#include "commlens/summary/iteration_set.hpp"

#include <algorithm>
#include <iterator>

namespace commlens {

void IterationSet::insert(Iteration iteration) {
  if (last_of_.empty()) {
    last_of_.emplace(iteration, iteration);
    return;
  }
  const auto last = std::prev(last_of_.end());  // most come in order
  if (iteration < last->first) {
    insert_range(iteration, iteration);
  } else if (iteration > last->second) {
    if (std::int64_t{last->second} + 1 == iteration) {
      last->second = iteration;
    } else {
      last_of_.emplace_hint(last_of_.end(), iteration, iteration);
    }
  }
}

void IterationSet::merge(const IterationSet& other) {
  other.each_range([&](Iteration first, Iteration last) { insert_range(first, last); });
}

void IterationSet::insert_range(Iteration first, Iteration last) {
  auto range = last_of_.upper_bound(first);  // the first range that begins after it
  const auto touches = [](Iteration end, Iteration begin) { return std::int64_t{end} + 1 >= begin; };
  if (range != last_of_.begin() && touches(std::prev(range)->second, first)) {
    --range;
    if (range->second >= last) {
      return;
    }
    range->second = last;
  } else {
    range = last_of_.emplace_hint(range, first, last);
  }
  for (auto next = std::next(range); next != last_of_.end() && touches(range->second, next->first);) {
    range->second = std::max(range->second, next->second);
    next = last_of_.erase(next);
  }
}

bool IterationSet::contains(Iteration iteration) const {
  if (last_of_.empty() || iteration > std::prev(last_of_.end())->second) {
    return false;
  }
  const auto next = last_of_.upper_bound(iteration);
  return next != last_of_.begin() && std::prev(next)->second >= iteration;
}

std::int64_t IterationSet::size() const {
  std::int64_t size = 0;
  each_range([&](Iteration first, Iteration last) { size += std::int64_t{last} - first + 1; });
  return size;
}

std::vector<Iteration> IterationSet::list() const {
  std::vector<Iteration> all;
  all.reserve(static_cast<std::size_t>(size()));
  each_range([&](Iteration first, Iteration last) {
    for (std::int64_t iteration = first; iteration <= last; ++iteration) {
      all.push_back(static_cast<Iteration>(iteration));
    }
  });
  return all;
}

}  // namespace commlens
