#pragma once
#include <string_view>
#include <vector>

#include "commlens/compare/explain.hpp"
#include "commlens/trace/rule_book.hpp"

namespace commlens {

/// The cause called `name`; if the table does not have it, one with the name as title.
Cause cause_named(std::string_view name);

/// The cause of a term's calls in a call-by-call comparison: their purpose.
std::string_view cause_of(Term term);

/// Every cause in the table, for tests.
std::vector<std::string_view> cause_names();

}  // namespace commlens
