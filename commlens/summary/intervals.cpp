#include "commlens/summary/intervals.hpp"

#include <algorithm>
#include <utility>

namespace commlens {
namespace {

/// Appends an interval that starts no earlier than the last one, which it extends when they overlap or touch.
void append(Intervals& to, Interval next) {
  if (next.finished <= next.started) {
    return;
  }
  if (!to.empty() && next.started <= to.back().finished) {
    to.back().finished = std::max(to.back().finished, next.finished);
  } else {
    to.push_back(next);
  }
}

}  // namespace

Intervals united(Intervals any) {
  std::sort(any.begin(), any.end());
  Intervals result;
  for (const Interval& interval : any) {
    append(result, interval);
  }
  return result;
}

Intervals united(const Intervals& a, const Intervals& b) {
  Intervals both(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), both.begin());
  Intervals result;
  for (const Interval& interval : both) {
    append(result, interval);
  }
  return result;
}

Intervals difference(const Intervals& a, const Intervals& b) {
  Intervals result;
  auto hole = b.begin();
  for (Interval rest : a) {
    while (hole != b.end() && hole->finished <= rest.started) {
      ++hole;
    }
    for (auto cut = hole; cut != b.end() && cut->started < rest.finished; ++cut) {
      append(result, {rest.started, cut->started});
      rest.started = cut->finished;
      hole = cut;
    }
    append(result, rest);
  }
  return result;
}

std::chrono::nanoseconds length(const Intervals& intervals) {
  std::chrono::nanoseconds sum{};
  for (const Interval& interval : intervals) {
    sum += interval.finished - interval.started;
  }
  return sum;
}

std::chrono::nanoseconds common_length(const Intervals& a, const Intervals& b) {
  std::chrono::nanoseconds sum{};
  auto in_a = a.begin();
  auto in_b = b.begin();
  while (in_a != a.end() && in_b != b.end()) {
    const Interval common{std::max(in_a->started, in_b->started), std::min(in_a->finished, in_b->finished)};
    if (common.started < common.finished) {
      sum += common.finished - common.started;
    }
    in_a->finished <= in_b->finished ? void(++in_a) : void(++in_b);
  }
  return sum;
}

}  // namespace commlens
