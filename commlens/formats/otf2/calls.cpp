#include "commlens/formats/otf2/calls.hpp"

#include <algorithm>
#include <utility>

#include "commlens/trace/trace.hpp"

namespace commlens::formats::otf2 {

void Otf2Calls::enter(std::int64_t time_ns, bool is_call) {
  regions_.push_back({.entered = time_ns, .is_call = is_call, .last = std::nullopt});
}

void Otf2Calls::leave(std::int64_t time_ns) {
  if (regions_.empty()) {
    return;
  }
  for (std::optional<std::uint64_t> number = regions_.back().last; number && *number >= handed_over_;) {
    Call& call = calls_[*number - handed_over_];
    call.returned = time_ns;
    call.completed = call.has_request ? call.completed : call.returned;
    number = call.previous;
  }
  regions_.pop_back();
  collective_began_.reset();
  hand_over(false);
}

Otf2Calls::Call& Otf2Calls::append(std::int64_t time_ns) {
  Call& call = calls_.emplace_back();
  const bool is_in_call = !regions_.empty() && regions_.back().is_call;
  call.started = is_in_call ? regions_.back().entered : collective_began_.value_or(time_ns);
  if (is_in_call) {
    call.previous = std::exchange(regions_.back().last, handed_over_ + calls_.size() - 1);
  } else {
    call.returned = time_ns;
  }
  return call;
}

void Otf2Calls::call(std::int64_t time_ns, CallRecord record) {
  Call& call = append(time_ns);
  call.completed = call.returned;
  call.record = std::move(record);
  collective_began_.reset();
  hand_over(false);
}

void Otf2Calls::start(std::int64_t time_ns, std::uint64_t request, std::optional<CallRecord> record) {
  if (Call* const earlier = of_request(request)) {  // its number would not be free if it were not over
    earlier->completed = earlier->returned.value_or(earlier->started);
  }
  Call& call = append(time_ns);
  call.has_request = true;
  call.record = std::move(record);
  of_request_[request] = handed_over_ + calls_.size() - 1;
  hand_over(false);
}

Otf2Calls::Call* Otf2Calls::of_request(std::uint64_t request) {
  const auto found = of_request_.find(request);
  if (found == of_request_.end()) {
    return nullptr;
  }
  const std::uint64_t number = found->second;
  of_request_.erase(found);
  return number < handed_over_ ? nullptr : &calls_[number - handed_over_];
}

void Otf2Calls::complete(std::int64_t time_ns, std::uint64_t request, std::optional<CallRecord> record) {
  Call* const started = of_request(request);
  if (started == nullptr && !record) {
    return;  // of a send that was given up on, whose call is there
  }
  Call& call = started != nullptr ? *started : append(time_ns);
  if (record) {
    call.record = std::move(record);
  }
  call.completed = time_ns;
  call.is_complete = true;
  hand_over(false);
}

void Otf2Calls::cancel(std::uint64_t request) {
  if (Call* const call = of_request(request)) {
    call->is_cancelled = true;
    call->completed = call->started;
    hand_over(false);
  }
}

void Otf2Calls::finish() { hand_over(true); }

void Otf2Calls::hand_over(bool everything) {
  while (!calls_.empty() && (everything || calls_.front().completed || calls_.size() > k_most_waiting)) {
    hand_over(calls_.front());
    calls_.pop_front();
    ++handed_over_;
  }
}

void Otf2Calls::hand_over(Call& call) {
  if (call.is_cancelled) {
    sink_->skip(k_skipped_cancelled, 1);
    return;
  }
  if (!call.record) {
    sink_->skip("receive or collective whose completion is not recorded", 1);
    return;
  }
  if (call.has_request && !call.is_complete) {
    sink_->assume("message whose end is not known (the return of its function is used)", 1);
  }
  const std::int64_t end = call.completed.value_or(call.returned.value_or(call.started));
  call.record->start_ns = call.started;
  call.record->duration_ns = call.record->duration_ns.value_or(std::max<std::int64_t>(end - call.started, 0));
  sink_->add(*call.record);
}

}  // namespace commlens::formats::otf2
