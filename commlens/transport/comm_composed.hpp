#pragma once
#include <memory>
#include <string_view>

#include "commlens/transport/communicator.hpp"

namespace commlens {

/// The algorithm of all_reduce that composed() makes.
constexpr std::string_view k_composed_algorithm = "reduce_scatter_all_gather";

/// Decorates a communicator: a blocking all_reduce becomes a reduce_scatter and an all_gather of it, and an
/// all_reduce of the elements that the number of ranks leaves over. Other calls, and those that are started,
/// stay as they are. `below` can read its ranks' data, so buffers are host memory.
std::unique_ptr<Communicator> composed(std::unique_ptr<Communicator> below);

}  // namespace commlens
