#pragma once
#include <string_view>
#include <vector>

#include "commlens/compare/explain.hpp"
#include "commlens/trace/rule_book.hpp"

namespace commlens {

/// The cause of that name; the name itself as title when the table does not have it.
Cause cause_named(std::string_view name);

/// The cause of a term's calls where calls are compared one by one: what they are for.
std::string_view cause_of(Term term);

/// Every cause the table knows, for tests.
std::vector<std::string_view> cause_names();

}  // namespace commlens
