#include "commlens/compare/explain.hpp"

#include <algorithm>
#include <utility>

namespace commlens {

std::int64_t ExplainedGroup::calls() const {
  std::int64_t sum = 0;
  for (const ExplainedRow& row : rows) {
    sum += row.calls();
  }
  return sum;
}

Bytes ExplainedGroup::message() const {
  Bytes sum;
  for (const ExplainedRow& row : rows) {
    sum += row.message();
  }
  return sum;
}

Bytes ExplainedGroup::moved() const {
  Bytes sum;
  for (const ExplainedRow& row : rows) {
    sum += row.message_a + row.message_b;
  }
  return sum;
}

Explanation exchanged(Explanation explanation) {
  const auto exchange = [](ExplainedRow& row) {
    std::swap(row.calls_a, row.calls_b);
    std::swap(row.message_a, row.message_b);
  };
  for (ExplainedGroup& group : explanation.explained) {
    std::for_each(group.rows.begin(), group.rows.end(), exchange);
  }
  std::for_each(explanation.unexplained.begin(), explanation.unexplained.end(), exchange);
  for (Difference& difference : explanation.unexplained_calls) {
    std::swap(difference.a, difference.b);
    if (difference.verdict == Verdict::missing || difference.verdict == Verdict::extra) {
      difference.verdict = difference.verdict == Verdict::missing ? Verdict::extra : Verdict::missing;
    }
  }
  return explanation;
}

}  // namespace commlens
