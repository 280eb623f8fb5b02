#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/model/job.hpp"

namespace commlens {

/// Names of the rule sets that predict the calls of the job with the flags, in the order of the list; the
/// framework of the flags does not count. Rules that give volumes alone are none of them.
///   job  as read, not validated
std::vector<std::string_view> fitting_frameworks(const Job& job, const Overrides& flags);

/// The error; where it is one of `not_covered`, with the rule sets that take the job, if there are any.
Error with_fitting_frameworks(Error error, const Job& job, const Overrides& flags);

/// The error without the words that other rules may cover the job.
Error of_these_rules(Error error);

/// "a, b or c"; `names` is not empty.
std::string listed_names(std::vector<std::string_view> names);

}  // namespace commlens
