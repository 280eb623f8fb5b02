#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace commlens {

/// A link of a network, in one direction; numbered from 0.
using LinkId = std::int32_t;

/// What one unit of a user's level takes of a link.
struct LinkUse {
  LinkId link = 0;
  double amount = 0;  // of the link's capacity, for each unit of the level; above 0
};

/// Weighted max-min fair sharing of links among users that each take several links at once.
///
/// Levels x of the users are as large as they can be in this sense: no level x_i can rise unless one falls
/// whose x / weight is smaller or equal. By progressive filling: the link with the least (capacity left) /
/// (sum of weight × amount of its users that are not settled) settles these users; what they take is
/// subtracted from all their links; repeated until all are settled (Bertsekas and Gallager, Data Networks,
/// 6.5.2). One solution takes O(uses × log links).
class MaxMin {
 public:
  static constexpr double k_no_cap = std::numeric_limits<double>::infinity();

  /// Capacities of the links 0, 1, …; each above 0 and finite.
  explicit MaxMin(std::vector<double> capacities);

  std::span<const double> capacities() const { return capacities_; }

  /// Forgets the users, not the links.
  void clear();

  /// Adds a user, numbered from 0 in the order of adding. A link that stands twice is taken twice. `weight`
  /// is above 0; the level never exceeds `cap`. A user without links needs a cap.
  void add(std::span<const LinkUse> uses, double weight = 1, double cap = k_no_cap);

  /// Levels of all users.
  std::span<const double> solve();

 private:
  static constexpr double k_not_settled = -1;

  struct User {
    std::size_t first = 0;  // of uses_
    std::size_t last = 0;
    double weight = 1;
    double cap = k_no_cap;
    double bound = k_no_cap;  // cap / weight
  };
  /// What is left of a link that somebody uses.
  struct Left {
    LinkId link = 0;
    double capacity = 0;
    double weight = 0;          // sum of weight × amount of users that are not settled
    double weight_before = 0;   // when it was last summed up, not subtracted from
    std::size_t unsettled = 0;  // uses of them
    std::size_t first = 0;      // of users_of_
    std::size_t last = 0;
  };
  struct Candidate {
    double share = 0;  // level / weight at which the link is full
    std::int32_t at = 0;
    friend bool operator>(const Candidate& a, const Candidate& b) {
      return std::pair(a.share, a.at) > std::pair(b.share, b.at);
    }
  };

  void begin();
  void find_links();
  void find_users_of_links();
  void settle(std::size_t user, double level);
  void settle_bounded(double share);
  void settle_users_of(const Left& left, double share);
  double share_of(Left& left) const;
  double amount_of(std::size_t user, LinkId link) const;
  bool is_settled(std::size_t user) const { return levels_[user] >= 0; }

  std::vector<double> capacities_;
  std::vector<User> users_;
  std::vector<LinkUse> uses_;
  std::vector<double> levels_;
  std::vector<std::int32_t> place_;   // of each link in left_; -1 where nobody uses it
  std::vector<std::int32_t> use_at_;  // of each use, the place of its link
  std::vector<Left> left_;
  std::vector<std::uint32_t> users_of_;  // of the links in left_, one after the other
  std::vector<std::uint32_t> by_bound_;  // users with a cap, the lowest bound first
  std::size_t next_bounded_ = 0;
  std::vector<Candidate> heap_;  // the least share first
};

}  // namespace commlens
