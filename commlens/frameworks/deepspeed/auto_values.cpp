#include "commlens/frameworks/deepspeed/auto_values.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/deepspeed/options.hpp"

namespace commlens {
namespace {

bool is_auto(const ConfigNode& node) { return node.kind == ConfigNode::Kind::scalar && node.text == "auto"; }

/// Whether `key` of the outermost map has a value of its own.
bool is_given(const ConfigNode& settings, std::string_view key) {
  const ConfigNode* value = find(settings, key);
  return value != nullptr && value->kind != ConfigNode::Kind::null && !is_auto(*value);
}

bool asks_for_zero3(const ConfigNode& settings) {
  const ConfigNode* zero = find(settings, "zero_optimization");
  const ConfigNode* stage = zero == nullptr ? nullptr : find(*zero, "stage");
  return stage != nullptr && as_integer(*stage).value_or(0) == 3;
}

/// Replaces one "auto" after the other and notes what became of it.
class AutoSettings {
 public:
  AutoSettings(const ConfigNode& settings, const TrainingArguments& given, Job& job)
      : given_(given),
        job_(job),
        has_total_(is_given(settings, "train_batch_size")),
        is_zero3_(asks_for_zero3(settings)) {}

  void settle(ConfigNode& node, const std::string& path) {
    if (is_auto(node)) {
      deepspeed::options(job_).has_auto_values = !given_.are_all_known;
      replace(node, path);
      return;
    }
    for (std::size_t index = 0; index < node.items.size(); ++index) {
      const bool is_map = node.kind == ConfigNode::Kind::map;
      settle(node.items[index], !is_map        ? path
                                : path.empty() ? node.keys[index]
                                               : path + "." + node.keys[index]);
    }
  }

  /// "hidden^2" and the like are computed here, once the width is known.
  std::vector<std::string> notes() const {
    std::vector<std::string> notes = notes_;
    const deepspeed::Options& options = deepspeed::options(job_);
    const auto add = [&](bool is_marked, std::string_view key, std::int64_t value, std::string_view formula) {
      if (is_marked && job_.model.hidden > 0) {
        notes.push_back(fmt::format("{} {} ({})", key, value, formula));
      }
    };
    add(options.follows_width.reduce_bucket, "reduce_bucket_size", options.reduce_bucket_size, "hidden^2");
    if (is_zero3_) {  // with other stages they mean nothing
      add(options.follows_width.prefetch_bucket, "stage3_prefetch_bucket_size", options.prefetch_bucket_size,
          "0.9 hidden^2");
      add(options.follows_width.persistence_threshold, "stage3_param_persistence_threshold",
          job_.train.persistence_threshold, "10 hidden");
    }
    return notes;
  }

  /// Settings that transformers does not fill in, so that DeepSpeed would refuse them.
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  void replace(ConfigNode& node, const std::string& path) {
    deepspeed::WidthSizes& sizes = deepspeed::options(job_).follows_width;
    const std::pair<std::string_view, bool*> by_width[] = {
        {"zero_optimization.reduce_bucket_size", &sizes.reduce_bucket},
        {"zero_optimization.stage3_prefetch_bucket_size", &sizes.prefetch_bucket},
        {"zero_optimization.stage3_param_persistence_threshold", &sizes.persistence_threshold}};
    node.kind = ConfigNode::Kind::null;
    for (const auto& [key, mark] : by_width) {
      if (path == key) {
        *mark = true;
        return;
      }
    }
    constexpr std::string_view without_effect = "train_batch_size";  // micro-batch x steps x ranks
    if (path == "fp16.enabled" || path == "bf16.enabled") {
      const DType dtype = given_.dtype.value_or(DType::fp32);
      set(node, dtype == (path == "fp16.enabled" ? DType::fp16 : DType::bf16) ? "true" : "false");
      note_precision(dtype);
    } else if (path == "train_micro_batch_size_per_gpu") {
      set_batch(node, path, given_.micro_batch.value_or(k_micro_batch));
    } else if (path == "gradient_accumulation_steps") {
      set_batch(node, path, given_.micro_batches.value_or(1));
    } else if (path == "gradient_clipping") {
      set(node, "1.0");
      notes_.push_back(path + " 1");
    } else if (path != without_effect && !path.starts_with("optimizer.") && !path.starts_with("scheduler.")) {
      unknown_.push_back(shown_text(path, k_longest_path));
    }
  }

  static void set(ConfigNode& node, std::string text) {
    node.kind = ConfigNode::Kind::scalar;
    node.quoted = false;
    node.text = std::move(text);
  }

  /// With a total of its own DeepSpeed derives the rest.
  void set_batch(ConfigNode& node, const std::string& path, std::int64_t value) {
    if (!has_total_) {
      set(node, std::to_string(value));
      notes_.push_back(fmt::format("{} {}", path, value));
    }
  }

  void note_precision(DType dtype) {
    if (!std::exchange(has_precision_, true)) {
      notes_.push_back(fmt::format("precision {}", name_of(dtype)));
      job_.train.dtype = dtype;
    }
  }

  static constexpr std::int64_t k_micro_batch = 8;
  static constexpr std::size_t k_longest_path = 80;

  TrainingArguments given_;
  Job& job_;
  bool has_total_;
  bool is_zero3_;
  bool has_precision_ = false;
  std::vector<std::string> notes_;
  std::vector<std::string> unknown_;
};

}  // namespace

ConfigNode with_auto_settled(const ConfigNode& settings, const TrainingArguments& given, Job& job) {
  ConfigNode settled = settings;
  AutoSettings automatic(settings, given, job);
  automatic.settle(settled, "");
  deepspeed::settle_width_sizes(job);
  const std::vector<std::string> notes = automatic.notes();
  if (!notes.empty() && !given.are_all_known) {
    job.warnings.push_back(
        fmt::format("{}: \"auto\" becomes what transformers sets: {}; other training arguments are "
                    "--micro-batch, --micro-batches, --clip and --dtype",
                    settings.file, fmt::join(notes, ", ")));
  }
  for (const std::string& key : automatic.unknown()) {
    job.warnings.push_back(
        fmt::format("{}: '{}' is \"auto\", which transformers does not fill in; DeepSpeed's "
                    "default is assumed, unverified",
                    settings.file, key));
    job.unmodelled.push_back(fmt::format("{}: '{}' \"auto\"", settings.file, key));
  }
  return settled;
}

}  // namespace commlens
