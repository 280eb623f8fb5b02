#include "commlens/frameworks/variations.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "commlens/frameworks/frameworks.hpp"

namespace commlens {
namespace {

void add_shared(Variations& changes) {
  const Job& job = changes.job();
  for (int stage = 0; stage <= 3; ++stage) {
    if (stage != job.train.zero_stage) {
      changes.add("zero stage", fmt::format("{}", stage),
                  [&](Job& other) { other.train.zero_stage = stage; });
    }
  }
  constexpr std::array<std::int64_t, 6> micro_batches = {1, 2, 4, 8, 16, 32};
  for (const std::int64_t count : micro_batches) {
    if (count != job.train.micro_batches) {
      changes.add("micro-batches", fmt::format("{}", count),
                  [&](Job& other) { other.train.micro_batches = count; });
    }
  }
  for (const std::int64_t factor : {2, 4, 8}) {
    const std::int64_t larger = job.train.micro_batch * factor;
    changes.add("micro-batch size", fmt::format("{}", larger),
                [&](Job& other) { other.train.micro_batch = larger; });
    if (job.train.micro_batch % factor == 0) {
      const std::int64_t smaller = job.train.micro_batch / factor;
      changes.add("micro-batch size", fmt::format("{}", smaller),
                  [&](Job& other) { other.train.micro_batch = smaller; });
    }
  }
  // The same sequences in other micro-batches, and more or fewer of them.
  for (const std::int64_t factor : {2, 4}) {
    if (job.train.micro_batches % factor == 0) {
      changes.add("micro-batch size of the same batch", fmt::format("{}", factor * job.train.micro_batch),
                  [&](Job& other) {
                    other.train.micro_batch *= factor;
                    other.train.micro_batches /= factor;
                  });
    }
    if (job.train.micro_batch % factor == 0) {
      changes.add("micro-batch size of the same batch", fmt::format("{}", job.train.micro_batch / factor),
                  [&](Job& other) {
                    other.train.micro_batch /= factor;
                    other.train.micro_batches *= factor;
                  });
    }
  }
  for (const std::int64_t factor : {2, 4}) {
    changes.add("sequence length", fmt::format("{}", factor * job.model.sequence),
                [&](Job& other) { other.model.sequence *= factor; });
    if (job.model.sequence % factor == 0) {
      changes.add("sequence length", fmt::format("{}", job.model.sequence / factor),
                  [&](Job& other) { other.model.sequence /= factor; });
    }
  }
  for (const std::int64_t layers : {job.model.layers - 1, job.model.layers + 1, job.model.layers - 2,
                                    job.model.layers + 2, job.model.layers / 2, 2 * job.model.layers}) {
    if (layers > 0) {
      changes.add("layers", fmt::format("{}", layers), [&](Job& other) { other.model.layers = layers; });
    }
  }
  for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
    if (dtype != job.train.dtype) {
      changes.add("precision", std::string(name_of(dtype)), [&](Job& other) { other.train.dtype = dtype; });
    }
  }
  const bool recomputes = job.train.recompute == Recompute::full;
  changes.add("checkpoint activations", recomputes ? "false" : "true",
              [&](Job& other) { set_recompute(other, recomputes ? Recompute::none : Recompute::full); });
  const bool clips = job.train.gradient_clipping > 0;
  changes.add("gradient clipping", clips ? "0" : "1",
              [&](Job& other) { other.train.gradient_clipping = clips ? 0.0 : 1.0; });
}

void add_model(Variations& changes) {
  const Job& job = changes.job();
  changes.toggle("tied embeddings", [](Job& other) -> bool& { return other.model.tied_embeddings; });
  changes.toggle("parallel residual", [](Job& other) -> bool& { return other.model.parallel_residual; });
  changes.add("positions", job.model.positions == Positions::learned ? "rotary" : "learned", [&](Job& other) {
    other.model.positions =
        job.model.positions == Positions::learned ? Positions::rotary : Positions::learned;
  });
  const std::int64_t raw = job.model.raw_vocab > 0 ? job.model.raw_vocab : job.model.vocab;
  for (const std::int64_t vocab : {raw, round_up(raw, 128 * job.layout.tp)}) {
    if (vocab != job.model.vocab) {
      changes.add("padded vocabulary", fmt::format("{}", vocab), [&](Job& other) {
        other.model.vocab = vocab;
        other.model.vocab_is_padded = true;
      });
    }
  }
}

}  // namespace

std::vector<std::int64_t> round_numbers(std::vector<std::int64_t> first) {
  for (std::int64_t power = 1000; power <= 1'000'000'000; power *= 10) {
    for (const std::int64_t factor : {1, 2, 5}) {
      first.push_back(power * factor);
    }
  }
  return first;
}

void Variations::add(std::string_view setting, std::string value, const std::function<void(Job&)>& change) {
  add_to(changes_, setting, std::move(value), change);
}

void Variations::add_release(std::string value, const std::function<void(Job&)>& change) {
  add_to(releases_, "framework_version", std::move(value), change);
}

void Variations::add_to(std::vector<SettingChange>& changes, std::string_view setting, std::string value,
                        const std::function<void(Job&)>& change) const {
  Job changed = job_;
  change(changed);
  if (Result<Job> job = validated(std::move(changed))) {
    changes.push_back({std::string(setting), std::move(value), std::move(*job)});
  }
}

std::vector<SettingChange> Variations::take() {
  std::move(releases_.begin(), releases_.end(), std::back_inserter(changes_));
  return std::move(changes_);
}

void Variations::toggle(std::string_view setting, const std::function<bool&(Job&)>& member) {
  const bool value = !member(job_);
  add(setting, value ? "true" : "false", [&](Job& job) { member(job) = value; });
}

void Variations::limits(std::string_view setting, const std::function<std::int64_t&(Job&)>& member,
                        const std::vector<std::int64_t>& values) {
  for (const std::int64_t value : values) {
    if (value != member(job_)) {
      add(setting, fmt::format("{}", value), [&](Job& job) { member(job) = value; });
    }
  }
}

void Variations::buckets(std::string_view setting, const std::function<Bytes&(Job&)>& member,
                         std::string_view unit) {
  constexpr std::array<std::int64_t, 7> mebibytes = {1, 5, 10, 25, 50, 100, 200};
  for (const std::int64_t size : mebibytes) {
    const Bytes bucket{size << 20};
    if (bucket != member(job_)) {
      add(setting, fmt::format("{}{}", size, unit), [&](Job& job) { member(job) = bucket; });
    }
  }
}

std::vector<SettingChange> setting_changes(const Job& job, const std::vector<std::int64_t>& sizes) {
  const auto add_settings = rules_of(job).variations;
  if (add_settings == nullptr) {
    return {};
  }
  std::vector<std::int64_t> limits = round_numbers();
  limits.insert(limits.end(), sizes.begin(), sizes.end());
  Variations variations(job, std::move(limits));
  add_settings(variations);
  add_shared(variations);
  add_model(variations);
  return variations.take();
}

}  // namespace commlens
