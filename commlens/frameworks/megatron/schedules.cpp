#include "commlens/frameworks/megatron/schedules.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace commlens::megatron {
namespace {

using Kind = Action::Kind;

/// The schedules of stages with one chunk. Source: core/pipeline_parallel/schedules.py:696
/// forward_backward_no_pipelining, :2120 forward_backward_pipelining_without_interleaving.
class PlainSchedule {
 public:
  explicit PlainSchedule(const ScheduleSettings& settings)
      : settings_(settings),
        is_first_(settings.stage == 0),
        is_last_(settings.stage + 1 == settings.stages),
        warm_up_(std::min(settings.stages - settings.stage - 1, settings.micro_batches)) {}

  std::vector<Action> actions() {
    for (std::int64_t i = 0; i < warm_up_; ++i) {
      exchange({.receives_forward = !is_first_});
      forward(i);
      exchange({.sends_forward = !is_last_});
    }
    const std::int64_t remaining = settings_.micro_batches - warm_up_;
    if (remaining > 0) {
      exchange({.receives_forward = !is_first_});
    }
    for (std::int64_t i = 0; i < remaining; ++i) {
      forward(i + warm_up_);
      steady(i, i + 1 == remaining);
    }
    if (!settings_.forward_only) {
      cool_down();
    }
    return std::move(actions_);
  }

 private:
  void exchange(Exchange what) {
    if (!what.is_empty()) {
      actions_.push_back({.kind = Kind::exchange, .exchange = what});
    }
  }
  void forward(std::int64_t micro_batch) {
    actions_.push_back({.kind = Kind::forward, .micro_batch = micro_batch});
  }
  void backward(std::int64_t micro_batch) {
    const bool is_final = micro_batch + 1 == settings_.micro_batches;
    const bool waits = settings_.aligns_gradients && !is_first_;
    actions_.push_back({.kind = Kind::backward, .micro_batch = micro_batch, .reduces = is_final && !waits});
  }

  void steady(std::int64_t i, bool is_last_turn) {
    if (settings_.forward_only) {
      exchange({.sends_forward = !is_last_});
      exchange({.receives_forward = !is_first_ && !is_last_turn});
      return;
    }
    exchange({.sends_forward = !is_last_, .receives_backward = !is_last_});
    backward(i);
    exchange({.receives_forward = !is_first_ && !is_last_turn, .sends_backward = !is_first_});
  }

  void cool_down() {
    for (std::int64_t i = 0; i < warm_up_; ++i) {
      exchange({.receives_backward = !is_last_});
      backward(settings_.micro_batches - warm_up_ + i);
      exchange({.sends_backward = !is_first_});
    }
    if (settings_.aligns_gradients && !is_first_) {
      actions_.push_back({.kind = Kind::reduce_gradients});
    }
  }

  ScheduleSettings settings_;
  bool is_first_;
  bool is_last_;
  std::int64_t warm_up_;
  std::vector<Action> actions_;
};

/// Source: core/pipeline_parallel/schedules.py:992 forward_backward_pipelining_with_interleaving; the names
/// of its functions are kept.
class InterleavedSchedule {
 public:
  explicit InterleavedSchedule(const ScheduleSettings& settings)
      : settings_(settings),
        is_first_(settings.stage == 0),
        is_last_(settings.stage + 1 == settings.stages),
        total_(settings.micro_batches * settings.chunks) {
    write_table();
    warm_up_ = (settings.stages - settings.stage - 1) * 2 + (settings.chunks - 1) * settings.group +
               (settings.has_one_more_warm_up ? 1 : 0);
    all_in_warm_up_ = settings.forward_only || warm_up_ >= total_;
    warm_up_ = all_in_warm_up_ ? total_ : warm_up_;
  }

  std::vector<Action> actions() {
    if (settings_.aligns_parameters) {
      gather(0);
      gather(1);
    }
    exchange({.receives_forward = !is_first_});
    for (std::int64_t k = 0; k < warm_up_; ++k) {
      warm_up(k);
    }
    for (std::int64_t k = 0; k < total_ - warm_up_; ++k) {
      steady(k, k + 1 == total_ - warm_up_);
    }
    if (!settings_.forward_only) {
      cool_down();
    }
    return std::move(actions_);
  }

 private:
  struct Turn {
    std::int64_t micro_batch;
    std::int64_t chunk;
  };

  /// get_schedule_table
  void write_table() {
    for (std::int64_t first = 0; first < settings_.micro_batches; first += settings_.group) {
      const std::int64_t end = std::min(first + settings_.group, settings_.micro_batches);
      for (std::int64_t chunk = 0; chunk < settings_.chunks; ++chunk) {
        for (std::int64_t micro_batch = first; micro_batch < end; ++micro_batch) {
          table_.push_back({micro_batch, chunk});
        }
      }
    }
  }

  std::int64_t chunk_of(std::int64_t turn, bool is_forward) const {
    const std::int64_t chunk = table_[static_cast<std::size_t>(turn % total_)].chunk;
    return is_forward ? chunk : settings_.chunks - chunk - 1;
  }
  std::int64_t micro_batch_of(std::int64_t turn) const {
    return table_[static_cast<std::size_t>(turn)].micro_batch;
  }
  bool ends_model(std::int64_t chunk) const { return is_last_ && chunk + 1 == settings_.chunks; }
  bool begins_model(std::int64_t chunk) const { return is_first_ && chunk == 0; }

  /// recv_tensor_from_previous_stage
  bool receives(std::int64_t turn, bool is_forward) const {
    const bool is_leading = is_forward ? is_first_ : is_last_;
    if (!is_leading) {
      return true;
    }
    const std::int64_t ahead = settings_.stages - 1;
    const std::int64_t last_chunk = is_forward ? settings_.chunks - 1 : 0;
    return turn >= ahead && chunk_of(turn - ahead, is_forward) != last_chunk;
  }

  void exchange(Exchange what) {
    if (!what.is_empty()) {
      actions_.push_back({.kind = Kind::exchange, .exchange = what});
    }
  }
  void gather(std::int64_t chunk) { actions_.push_back({.kind = Kind::gather_parameters, .chunk = chunk}); }

  /// forward_step_helper
  void forward(std::int64_t turn) {
    const std::int64_t synchronised = turn + settings_.stage;
    if (settings_.aligns_parameters && synchronised < total_ && micro_batch_of(synchronised) == 0) {
      const std::int64_t next = chunk_of(synchronised, true) + 1;
      if (1 < next && next < settings_.chunks) {
        gather(next);
      }
    }
    actions_.push_back(
        {.kind = Kind::forward, .micro_batch = micro_batch_of(turn), .chunk = chunk_of(turn, true)});
  }

  bool is_final(std::int64_t turn) const {
    return turn >= 0 && turn < total_ && micro_batch_of(turn) + 1 == settings_.micro_batches;
  }

  /// backward_step_helper
  void backward(std::int64_t turn) {
    const std::int64_t chunk = chunk_of(turn, false);
    actions_.push_back({.kind = Kind::backward,
                        .micro_batch = micro_batch_of(turn),
                        .chunk = chunk,
                        .reduces = !settings_.aligns_gradients && is_final(turn)});
    const std::int64_t synchronised = turn - settings_.stage;
    if (settings_.aligns_gradients && is_final(synchronised)) {
      reduce(chunk_of(synchronised, false));
    }
  }
  void reduce(std::int64_t chunk) {
    reduced_.insert(chunk);
    actions_.push_back({.kind = Kind::reduce_gradients, .chunk = chunk});
  }

  void warm_up(std::int64_t k) {
    const bool receives_next = receives(k, true) && k + 1 != total_;
    const bool sends = !ends_model(chunk_of(k, true));
    const bool ends = k + 1 == warm_up_ && !all_in_warm_up_;
    if (settings_.overlaps_at_ends && !is_first_) {
      exchange({.receives_forward = receives_next, .is_overlapped = true});
    }
    forward(k);
    if (settings_.overlaps_at_ends) {
      exchange(
          {.sends_forward = sends, .receives_forward = receives_next && is_first_, .is_overlapped = true});
    } else {
      exchange({.sends_forward = sends,
                .receives_forward = receives_next,
                .receives_backward = ends && !settings_.overlaps && !is_last_,
                .is_overlapped = settings_.overlaps});
    }
    if (ends && settings_.overlaps) {
      exchange({.receives_backward = !is_last_, .is_overlapped = true});
    }
  }

  void steady(std::int64_t k, bool is_last_turn) {
    const std::int64_t turn = k + warm_up_;
    const Exchange ahead{.sends_forward = !ends_model(chunk_of(turn, true)),
                         .receives_forward = receives(turn, true) && !is_last_turn,
                         .is_overlapped = settings_.overlaps};
    const Exchange back{.sends_backward = !begins_model(chunk_of(k, false)),
                        .receives_backward = receives(k, false),
                        .is_overlapped = settings_.overlaps};
    forward(turn);
    if (settings_.overlaps) {
      exchange(ahead);
      backward(k);
      exchange(back);
      return;
    }
    backward(k);
    exchange({ahead.sends_forward, ahead.receives_forward, back.sends_backward, back.receives_backward});
  }

  void cool_down() {
    if (all_in_warm_up_) {
      exchange({.receives_backward = !is_last_});
    }
    for (std::int64_t k = total_ - warm_up_; k < total_; ++k) {
      const bool receives_next = receives(k, false) && k + 1 != total_;
      const bool sends = !begins_model(chunk_of(k, false));
      const bool prefetches = settings_.overlaps_at_ends && !is_last_;
      if (prefetches) {
        exchange({.receives_backward = receives_next, .is_overlapped = true});
      }
      backward(k);
      exchange({.sends_backward = sends,
                .receives_backward = receives_next && !prefetches,
                .is_overlapped = settings_.overlaps});
    }
    for (std::int64_t chunk = 0; settings_.aligns_gradients && chunk < settings_.chunks; ++chunk) {
      if (!reduced_.contains(chunk)) {
        reduce(chunk);
      }
    }
  }

  ScheduleSettings settings_;
  bool is_first_;
  bool is_last_;
  std::int64_t total_;  // passes of all chunks in one direction
  std::int64_t warm_up_ = 0;
  bool all_in_warm_up_ = false;
  std::vector<Turn> table_;
  std::set<std::int64_t> reduced_;
  std::vector<Action> actions_;
};

}  // namespace

std::vector<Action> schedule(const ScheduleSettings& settings) {
  return settings.chunks > 1 ? InterleavedSchedule(settings).actions() : PlainSchedule(settings).actions();
}

}  // namespace commlens::megatron
