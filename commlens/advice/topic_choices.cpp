// Settings of a framework that trade memory for bytes, several values of which are weighed against each
// other: shards and replicas, what stays gathered, units of gathering, the loss and its chunks, accumulation,
// schedules, ranks of experts.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "commlens/advice/topics.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens {
namespace {

constexpr double k_tolerated = 0.01;  // growth of what a change is not made for

struct Topic {
  AdviceTopic topic;
  std::string_view id;
  std::string_view what;  // in sentences on what is not recommended
};
constexpr std::array<Topic, 9> k_topics = {{
    {AdviceTopic::sharding, "data_shard", "other shards and replicas"},
    {AdviceTopic::gathering, "reshard_after_forward", "what stays gathered after the forward pass"},
    {AdviceTopic::units, "units", "other units"},
    {AdviceTopic::loss, "loss_parallel", "a parallel loss"},
    {AdviceTopic::accumulation, "accumulation", "fewer reductions of micro-batches"},
    {AdviceTopic::gradient_dtype, "gradient_dtype", "gradients in a narrower element type"},
    {AdviceTopic::schedule, "schedule", "interleaved stages"},
    {AdviceTopic::loss_chunks, "loss_chunks", "other numbers of chunks of the loss"},
    {AdviceTopic::experts, "expert_ranks", "experts divided over other numbers of ranks"},
}};

/// A value of the setting, planned.
struct Choice {
  AdvisedChange change;
  Outcome outcome;
};

double growth(Bytes before, Bytes after) {
  return before.value == 0
             ? static_cast<double>(after.value > 0)
             : static_cast<double>(after.value - before.value) / static_cast<double>(before.value);
}

class Weighing {
 public:
  Weighing(Study& study, const Topic& topic) : study_(study), topic_(topic) {
    for (AdvisedChange& change : advised_changes(study.job(), topic.topic)) {
      if (std::optional<Outcome> outcome = study.outcome(change.job)) {
        choices_.push_back({std::move(change), std::move(*outcome)});
      }
    }
  }

  void advise() {
    if (choices_.empty()) {
      return;
    }
    const Study& study = study_;
    const bool knows_memory = study.options().memory.has_value();
    const bool fits_now = !knows_memory || study.fits(study.cost());
    const auto saves = [&](const Choice& choice) { return sends_less(choice) && can_have(choice); };
    const auto needs_less = [&](const Choice& choice) {
      return memory_share(choice) >= study.options().least_saving && sends_no_more(choice);
    };
    const auto by_bytes = [&](const Choice& choice) { return study.saved_share(choice.outcome); };
    const auto by_memory = [&](const Choice& choice) { return memory_share(choice); };
    if (!fits_now) {
      const auto makes_fit = [&](const Choice& choice) { return study.fits(choice.outcome.cost()); };
      return recommend_or_leave(best(makes_fit, [&](const Choice& choice) {
        return -static_cast<double>(choice.outcome.cost().per_rank.wire.value);
      }));
    }
    if (Choice* const choice = best(saves, by_bytes)) {
      return recommend(*choice);
    }
    if (Choice* const choice = best(needs_less, by_memory)) {
      return recommend(*choice);
    }
    const Choice* const unknown =
        knows_memory ? nullptr : best([&](const Choice& choice) { return sends_less(choice); }, by_bytes);
    if (unknown != nullptr) {
      return study_.cannot_judge(fmt::format("{}: {}; whether that fits is not known, add --gpu-memory",
                                             in_sentence(unknown->change.title), effect_of(*unknown)));
    }
    if (topic_.topic == AdviceTopic::sharding && study.options().ranks_per_node == 0) {
      return study_.cannot_judge(
          "other shards and replicas: which bytes leave a node is not known, add --gpus-per-node");
    }
    leave();
  }

 private:
  template <typename Allowed, typename Merit>
  Choice* best(const Allowed& allowed, const Merit& merit) {
    Choice* found = nullptr;
    for (Choice& choice : choices_) {
      if (allowed(choice) && (found == nullptr || merit(choice) > merit(*found))) {
        found = &choice;
      }
    }
    return found;
  }
  bool sends_no_more(const Choice& choice) const {
    const StepVolume& was = study_.cost().per_rank;
    const StepVolume& is = choice.outcome.cost().per_rank;
    return growth(was.wire, is.wire) <= k_tolerated &&
           growth(was.wire_inter_node, is.wire_inter_node) <= k_tolerated;
  }
  bool sends_less(const Choice& choice) const {
    return study_.is_worth_memory(choice.outcome) &&
           (sends_no_more(choice) || topic_.topic == AdviceTopic::schedule);
  }
  bool can_have(const Choice& choice) const {
    const Bytes then = choice.outcome.cost().memory;
    return study_.options().memory ? study_.fits(choice.outcome.cost())
                                   : growth(study_.cost().memory, then) <= k_tolerated;
  }
  double memory_share(const Choice& choice) const {
    return -growth(study_.cost().memory, choice.outcome.cost().memory);
  }

  static std::string in_sentence(std::string title) {
    title.front() = static_cast<char>(title.front() - 'A' + 'a');
    return title;
  }
  std::string effect_of(const Choice& choice) const {
    const StepCost& was = study_.cost();
    const StepCost& is = choice.outcome.cost();
    const bool is_as_many = is.per_rank.wire_inter_node == was.per_rank.wire_inter_node;
    const std::string between =
        study_.options().ranks_per_node == 0 ? ""
        : is_as_many                         ? ", as much between nodes"
                     : fmt::format(", {} instead of {} between nodes", to_text(is.per_rank.wire_inter_node),
                                   to_text(was.per_rank.wire_inter_node));
    const std::string bubble = is.bubble == was.bubble
                                   ? ""
                                   : fmt::format("; the pipeline's bubble is {} instead of {}",
                                                 share_text(is.bubble, 1), share_text(was.bubble, 1));
    return fmt::format(
        "a rank makes {} calls instead of {} and sends {} instead of {}{}{}; the fullest needs {} "
        "instead of {}",
        with_commas(is.per_rank.calls), with_commas(was.per_rank.calls), to_text(is.per_rank.wire),
        to_text(was.per_rank.wire), between, bubble, to_text(is.memory), to_text(was.memory));
  }

  void recommend(Choice& choice) {
    std::string effect = effect_of(choice) + ".";
    effect.front() = 'A';
    study_.recommend({.id = std::string(topic_.id),
                      .title = std::move(choice.change.title),
                      .reason = std::move(effect),
                      .flag = "",
                      .setting = std::move(choice.change.setting)},
                     choice.outcome);
  }
  void recommend_or_leave(Choice* choice) { choice == nullptr ? leave() : recommend(*choice); }
  /// Names the value that comes nearest.
  void leave() {
    const Choice* const nearest =
        best([](const Choice&) { return true; },
             [&](const Choice& choice) { return study_.saved_share(choice.outcome); });
    study_.leave(fmt::format("{}: with the best value ({}) {}", topic_.what, nearest->change.setting,
                             effect_of(*nearest)));
  }

  Study& study_;
  const Topic& topic_;
  std::vector<Choice> choices_;
};

}  // namespace

void advise_choices(Study& study) {
  for (const Topic& topic : k_topics) {
    Weighing(study, topic).advise();
  }
}

}  // namespace commlens
