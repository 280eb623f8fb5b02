#pragma once
#include <memory>
#include <vector>

#include "commlens/transport/communicator.hpp"

namespace commlens {

/// Calls that were started one by one as one Work, which is complete when all are. Its data moved from the
/// first start to the last end.
std::unique_ptr<Work> started_calls(std::vector<std::unique_ptr<Work>> works);

}  // namespace commlens
