#include "commlens/transport/communicator.hpp"

#include <utility>

#include <fmt/format.h>

#include "commlens/transport/started_calls.hpp"

namespace commlens {
std::unique_ptr<Work> Communicator::start_group(std::span<const CommCall> calls) {
  std::vector<std::unique_ptr<Work>> works;
  works.reserve(calls.size());
  for (const CommCall& call : calls) {
    works.push_back(start(call));
  }
  return started_calls(std::move(works));
}

Result<std::unique_ptr<Communicator>> Communicator::with_algorithm(CommKind kind,
                                                                   const std::string& algorithm) {
  return failure(fmt::format("this transport has no algorithm {} of {} to choose", algorithm, name_of(kind)));
}

}  // namespace commlens
