#pragma once
#include "commlens/app/watch.hpp"
#include "commlens/base/table.hpp"

namespace commlens {

/// A line for each op, axis and group size.
Table watched_ops(const JobView& view);

/// A line for each rank that is to be shown, in the order that was asked for.
Table watched_ranks(const JobView& view, const WatchShow& show);

}  // namespace commlens
