#include "commlens/app/reproduce/recordings.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "commlens/app/free_memory.hpp"
#include "commlens/app/predict.hpp"
#include "commlens/app/train.hpp"
#include "commlens/frameworks/memory.hpp"
#include "commlens/model/flops.hpp"

namespace commlens::study {
namespace {

constexpr std::int64_t k_lengths[] = {512, 1024, 2048, 4096};

void add_flag(std::string& text, const char* flag, const std::optional<std::int64_t>& value) {
  text += value ? fmt::format(" {} {}", flag, *value) : "";
}

/// 19M's six layers and eight heads, narrow enough for seconds on two cores.
Overrides narrow_19m(std::int64_t sequence) {
  Overrides overrides;
  overrides.hidden = 64;
  overrides.seq = sequence;
  overrides.vocab = 512;
  overrides.micro_batch = 1;
  overrides.dtype = DType::fp32;
  overrides.persistence_threshold = 0;
  return overrides;
}

Training data_training(int zero, Overrides overrides, const std::string& model, double expected) {
  overrides.dp = 8;
  overrides.zero = zero;
  const std::string scheme = zero == 0 ? "DDP" : fmt::format("ZeRO-{}", zero);
  return {fmt::format("{}-{}", model == "19M" ? "zero" : model + "-zero", zero),
          fmt::format("commlens, {} of {} on 8 ranks", overrides.hidden ? "narrow 19M" : model, scheme),
          model,
          overrides,
          3,
          expected};
}

Training model_training(const std::string& name, std::int64_t tp, std::int64_t pp, Overrides overrides,
                        double expected) {
  overrides.dp = 1;
  overrides.tp = tp;
  overrides.pp = pp;
  overrides.zero = 0;
  return {name, fmt::format("commlens, narrow 19M, t = {}, p = {}", tp, pp), "19M", overrides, 3, expected};
}

/// Two ranks of each scheme over the sequence lengths of Figures 14 and 15.
void add_lengths(std::vector<Training>& trainings, std::int64_t layers, std::int64_t hidden) {
  for (const std::int64_t sequence : k_lengths) {
    Overrides overrides = narrow_19m(sequence);
    overrides.layers = layers;
    overrides.hidden = hidden;
    overrides.heads = 2;  // the scores of every head are kept, the square of the sequence
    constexpr double longest = 4096;
    const double part = static_cast<double>(sequence) / longest;
    const double expected = 1.2 + 18 * part * part * static_cast<double>(layers) / 2;
    for (const int zero : {0, 3}) {
      Training training = data_training(zero, overrides, "19M", expected);
      training.overrides.dp = 2;
      training.name = fmt::format("length-{}-zero-{}", sequence, zero);
      training.title = fmt::format("commlens, small, {} on 2 ranks", zero == 0 ? "DDP" : "ZeRO-3");
      training.iterations = sequence > 2048 ? 2 : 3;
      trainings.push_back(training);
    }
    for (const bool is_tensor : {true, false}) {
      Training training = model_training(fmt::format("length-{}-{}", sequence, is_tensor ? "tp" : "pp"),
                                         is_tensor ? 2 : 1, is_tensor ? 1 : 2, overrides, expected);
      training.title = fmt::format("commlens, small, {} = 2", is_tensor ? "t" : "p");
      training.iterations = sequence > 2048 ? 2 : 3;
      trainings.push_back(training);
    }
  }
}

void add_model_trainings(std::vector<Training>& trainings) {
  trainings.push_back(model_training("tp-2", 2, 1, narrow_19m(64), 1));
  trainings.push_back(model_training("tp-4", 4, 1, narrow_19m(64), 1));
  Training two_stages = model_training("pp-2", 1, 2, narrow_19m(64), 1);
  two_stages.iterations = 6;  // the first against the later ones
  trainings.push_back(two_stages);
  Training four_stages = model_training("pp-4", 1, 4, narrow_19m(64), 1);
  four_stages.overrides.micro_batches = 4;

  trainings.push_back(four_stages);
  trainings.push_back(model_training("tp-2-pp-2", 2, 2, narrow_19m(64), 1));
  Training gathers = data_training(3, narrow_19m(64), "19M", 1);
  gathers.name = "gathers";
  gathers.title = "commlens, ZeRO-3 of narrow 19M on 4 ranks";
  gathers.overrides.dp = 4;
  trainings.push_back(gathers);
}

}  // namespace

std::vector<Training> quick_trainings() {
  std::vector<Training> trainings;
  for (const int zero : {0, 1, 2, 3}) {
    trainings.push_back(data_training(zero, narrow_19m(64), "19M", 1.5));
  }
  add_model_trainings(trainings);
  add_lengths(trainings, 2, 64);
  return trainings;
}

std::vector<Training> full_trainings() {
  std::vector<Training> trainings;
  for (const char* const model : {"19M", "125M"}) {
    for (const int zero : {0, 1, 2, 3}) {
      Overrides overrides;
      overrides.seq = 64;
      overrides.micro_batch = 1;
      overrides.dtype = DType::bf16;
      Training training = data_training(zero, overrides, model, model == std::string("19M") ? 25 : 35);
      training.iterations = 2;
      trainings.push_back(training);
    }
  }
  add_model_trainings(trainings);
  add_lengths(trainings, 6, 128);
  return trainings;
}

std::string command_of(const Training& training) {
  const Overrides& flags = training.overrides;
  std::string text = fmt::format("commlens train {}", training.model);
  add_flag(text, "--dp", flags.dp);
  add_flag(text, "--tp", flags.tp.value_or(1) > 1 ? flags.tp : std::nullopt);
  add_flag(text, "--pp", flags.pp.value_or(1) > 1 ? flags.pp : std::nullopt);
  text += flags.zero ? fmt::format(" --zero {}", *flags.zero) : "";
  add_flag(text, "--layers", flags.layers);
  add_flag(text, "--hidden", flags.hidden);
  add_flag(text, "--heads", flags.heads);
  add_flag(text, "--seq", flags.seq);
  add_flag(text, "--vocab", flags.vocab);
  add_flag(text, "--micro-batch", flags.micro_batch);
  add_flag(text, "--micro-batches", flags.micro_batches);
  add_flag(text, "--persistence-threshold", flags.persistence_threshold);
  text += flags.dtype ? fmt::format(" --dtype {}", name_of(*flags.dtype)) : "";
  return text + fmt::format(" --iterations {}", training.iterations);
}

namespace {

/// What the ranks of a training need together, threads of one process.
Bytes memory_needed(const Job& job) { return memory_per_rank(job).total() * job.layout.ranks; }

/// Refuses what would not fit with a fifth to spare: a page is not worth a machine without memory.
Result<void> check_room(const Training& training) {
  PredictRequest request;
  request.config = {training.model};
  request.framework = "commlens";
  request.overrides = training.overrides;
  return plan_of(request).and_then([&](const Plan& plan) -> Result<void> {
    const Bytes needed = memory_needed(plan.job);
    const std::optional<Bytes> room = free_memory();
    if (room && needed.value > room->value / 5 * 4) {
      return failure(fmt::format("its ranks need {}, and {} are free", to_text(needed), to_text(*room)));
    }
    return {};
  });
}

}  // namespace

Result<Recording> recorded(const Training& training, const std::string& where,
                           const std::function<bool()>& stop_requested) {
  Recording recording{training.name, training.title, command_of(training), {}, {}, training.iterations};
  TrainRequest request;
  request.config = {training.model};
  request.overrides = training.overrides;
  request.iterations = training.iterations;
  request.trace = where;
  request.stop_requested = stop_requested;
  request.train_events.begins = [&](const TrainRun& run, bool) { recording.job = run.plan.job; };
  return check_room(training)
      .and_then([&] { return train(request); })
      .and_then([&](TrainResult&& result) -> Result<Recording> {
        if (result.stopped || result.iterations.size() < 2) {
          return failure("stopped");
        }
        for (std::size_t at = 1; at < result.iterations.size(); ++at) {
          const double seconds = std::chrono::duration<double>(result.iterations[at].time).count();
          recording.seconds += seconds;
          recording.fastest_s = at == 1 ? seconds : std::min(recording.fastest_s, seconds);
          recording.slowest_s = std::max(recording.slowest_s, seconds);
        }
        recording.seconds /= static_cast<double>(result.iterations.size() - 1);
        recording.flops_per_s = iteration_flops_per_rank(recording.job).value / recording.seconds;
        if (result.check) {
          recording.calls = result.check->calls;
          recording.equal_calls = result.check->equal;
        }
        recording.trace = std::move(result.trace);
        return std::move(recording);
      });
}

}  // namespace commlens::study
