#include "commlens/compare/stream_calls.hpp"

#include <algorithm>

#include "commlens/base/check.hpp"

namespace commlens {

bool is_ignored(const CommOp& op, const CompareOptions& options) {
  return op.kind == CommKind::barrier || op.match == Match::random ||
         std::find(options.ignored.begin(), options.ignored.end(), op.kind) != options.ignored.end();
}

const IterationCalls& StreamCalls::at(const RankStream& stream, Iteration iteration) {
  if (loaded_ != &stream) {
    load(stream);
  }
  const auto found = calls_.find(iteration);
  COMMLENS_CHECK(found != calls_.end(), "every wanted iteration is loaded");
  return found->second;
}

void StreamCalls::load(const RankStream& stream) {
  loaded_ = &stream;
  calls_.clear();
  for (const Iteration iteration : wanted_) {
    calls_.try_emplace(iteration);
  }
  auto current = calls_.end();
  for (const CommEvent& event : stream.events) {
    if (current == calls_.end() || current->first != event.iteration) {
      current = calls_.find(event.iteration);
    }
    if (current == calls_.end()) {
      continue;
    }
    if (is_ignored(trace_.op(event.op), options_)) {
      ++current->second.ignored;
    } else {
      current->second.sequence.push_back(event.op);
    }
  }
  std::vector<std::uint32_t> place(trace_.ops().size(), UINT32_MAX);
  for (auto& [iteration, calls] : calls_) {
    for (const OpId op : calls.sequence) {
      std::uint32_t& at = place[static_cast<std::size_t>(op)];
      if (at == UINT32_MAX) {
        at = static_cast<std::uint32_t>(calls.counts.size());
        calls.counts.emplace_back(op, 0);
      }
      ++calls.counts[at].second;
    }
    for (const auto& [op, count] : calls.counts) {
      place[static_cast<std::size_t>(op)] = UINT32_MAX;
    }
  }
}

}  // namespace commlens
