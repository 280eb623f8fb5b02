#pragma once
#include <chrono>
#include <cstdint>
#include <optional>

#include "commlens/trace/call_blocks.hpp"
#include "commlens/trace/trace.hpp"

namespace commlens {

/// Facts on all calls that are needed to match calls of several ranks while they are read.
struct IterationFacts {
  /// Whether the iterations of every rank ascend, and the position of the unknown one.
  enum class Order : std::uint8_t { unknown_first, unknown_last, any };
  Order order = Order::unknown_first;
  bool has_training = false;  // an iteration from 0 on
  std::chrono::nanoseconds first_issued = std::chrono::nanoseconds::max();
  std::chrono::nanoseconds last_finished = std::chrono::nanoseconds::min();
};

/// Determines the facts from the blocks of one trace.
class IterationSurvey {
 public:
  void add(const CallBlock& block);
  IterationFacts facts() const;

 private:
  void enter(Iteration iteration);

  IterationFacts facts_;
  bool ascends_ = true;
  bool has_unknown_first_ = false;
  bool has_unknown_last_ = false;
  std::optional<std::size_t> stream_;
  std::optional<Iteration> latest_;  // of the stream
  bool follows_unknown_ = false;     // the stream's last call was of the unknown iteration, after known ones
};

/// A number that ascends if the iterations of a rank do.
std::int64_t label_of(Iteration iteration, IterationFacts::Order order);
/// The iteration of such a number.
Iteration iteration_of_label(std::int64_t label);

}  // namespace commlens
