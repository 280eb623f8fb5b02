#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "commlens/base/rank.hpp"

namespace commlens {

/// A set of iterations, stored as ranges: small if they are consecutive.
class IterationSet {
 public:
  void insert(Iteration iteration);
  void merge(const IterationSet& other);

  bool contains(Iteration iteration) const;
  bool empty() const { return last_of_.empty(); }
  std::int64_t size() const;
  Iteration front() const { return last_of_.begin()->first; }   // the set is not empty
  Iteration back() const { return last_of_.rbegin()->second; }  // the same
  /// Calls visit(first, last) for each range, ascending.
  template <typename Visit>
  void each_range(const Visit& visit) const {
    for (const auto& [first, last] : last_of_) {
      visit(first, last);
    }
  }
  /// All of them, ascending.
  std::vector<Iteration> list() const;
  friend bool operator==(const IterationSet& a, const IterationSet& b) { return a.last_of_ == b.last_of_; }

 private:
  void insert_range(Iteration first, Iteration last);
  std::map<Iteration, Iteration> last_of_;  // first of a range -> its last; no two touch
};

}  // namespace commlens
