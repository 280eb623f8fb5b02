#include "commlens/cli/train_flags.hpp"

#include <limits>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/number_check.hpp"
#include "commlens/frameworks/read_config.hpp"

namespace commlens {
namespace {

constexpr std::int64_t k_most_iterations = std::numeric_limits<std::int32_t>::max();
constexpr double k_largest_factor = 1e6;
constexpr double k_largest_beta = 1 - 1e-9;
constexpr std::int64_t k_longest_schedule = std::numeric_limits<std::int32_t>::max();

void declare_data(CLI::App& verb, TrainFlags& flags) {
  const char* const group = "Data (docs/data.md)";
  verb.add_option("--data", flags.request.data.file, "A text of any kind, or synthetic (the default)")
      ->type_name("FILE")
      ->group(group);
  verb.add_option("--vocab-file", flags.vocab_file, "GPT-2's vocab.json; without it, tokens are bytes")
      ->type_name("FILE")
      ->group(group);
  verb.add_option("--merge-file", flags.merge_file, "GPT-2's merges.txt")->type_name("FILE")->group(group);
}

void declare_execution(CLI::App& verb, TrainFlags& flags) {
  const char* const group = RankFlags::k_group;
  flags.ranks.declare(verb, true);
  verb.add_option("--device", flags.request.device, "cpu or cuda; default: cpu, with nccl cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->group(group);
  verb.add_option("--threads", flags.request.threads,
                  "Threads of each rank; default: its share of the cores, 1 in tiny models")
      ->check(between(std::int64_t{1}, std::int64_t{4096}))
      ->type_name("N")
      ->group(group);
  verb.add_flag("--no-prefetch", flags.no_prefetch,
                "ZeRO-3: gather parameters when they are needed, not ahead")
      ->group(group);
  verb.add_flag("--no-overlap", flags.no_overlap, "Wait for each gradient reduction before backward goes on")
      ->group(group);
}

void declare_files(CLI::App& verb, TrainFlags& flags) {
  const char* const group = "Checkpoints";
  verb.add_option("--save", flags.request.save, "Write checkpoints to this directory")
      ->type_name("DIR")
      ->group(group);
  verb.add_option("--save-every", flags.request.save_every, "Every N iterations; default: at the end only")
      ->check(between(std::int64_t{1}, k_most_iterations))
      ->type_name("N")
      ->group(group);
  verb.add_option("--resume", flags.request.resume, "Go on from the newest checkpoint of this directory")
      ->type_name("DIR")
      ->group(group);
}

void declare_recipe(CLI::App& verb, TrainFlags& flags) {
  RecipeChoice& recipe = flags.request.recipe;
  const char* const group = "Optimizer (default: what the configuration says, else this)";
  const auto add = [&](const char* name, auto& value, const char* help) {
    return verb.add_option(name, value, help)->group(group);
  };
  const auto add_number = [&](const char* name, std::optional<double>& value, const char* help) {
    add(name, value, help)->check(between(0.0, k_largest_factor))->type_name("X");
  };
  const auto add_count = [&](const char* name, std::optional<std::int64_t>& value, std::int64_t least,
                             const char* help) {
    add(name, value, help)->check(between(least, k_longest_schedule))->type_name("N");
  };
  add_number("--lr", recipe.learning_rate, "Learning rate after the warm-up; 0.0006");
  add_number("--min-lr", recipe.min_learning_rate, "Least learning rate; a tenth of --lr");
  add_count("--warmup", recipe.warmup, 0, "Iterations of linear warm-up; 0");
  add("--decay", flags.decay, "Of the learning rate; cosine")
      ->check(CLI::IsMember({"constant", "linear", "cosine", "exponential"}));
  add_count("--decay-iterations", recipe.decay_iterations, 1,
            "Iterations of the schedule, warm-up included; --iterations");
  add_number("--weight-decay", recipe.weight_decay, "Of AdamW; 0.1");
  add("--beta1", recipe.beta1, "Of AdamW; 0.9")->check(between(0.0, k_largest_beta))->type_name("X");
  add("--beta2", recipe.beta2, "Of AdamW; 0.95")->check(between(0.0, k_largest_beta))->type_name("X");
}

}  // namespace

void TrainFlags::declare(CLI::App& verb) {
  verb.add_option("CONFIG", request.config, config_kinds_text("19M"))->required();
  verb.add_option("--iterations", request.iterations, "Optimizer steps, those before --resume included")
      ->check(between(std::int64_t{1}, k_most_iterations))
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--seed", request.recipe.seed,
                  "Of parameters and data; default: that of the configuration, else 1234")
      ->check(between(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))
      ->type_name("N");
  verb.add_option("--rotary-fraction", request.rotary_fraction,
                  "Part of each head that rotary positions turn; default: rotary_pct of the file, else 1")
      ->check(between(0.0, 1.0))
      ->type_name("X");
  verb.add_option("--framework", framework, "The trainer has the rules of commlens only")->type_name("NAME");
  verb.add_option("-o,--output", request.trace, "Record the calls in this directory")
      ->type_name("DIR")
      ->capture_default_str();
  declare_ring(verb, request.ring_records);
  verb.add_option("--format", output.format, "table, json or csv")
      ->check(CLI::IsMember({"table", "json", "csv"}))
      ->capture_default_str();
  declare_data(verb, *this);
  declare_recipe(verb, *this);
  declare_files(verb, *this);
  declare_execution(verb, *this);
  layout.declare(verb, LayoutFlags::Verb::trained);
}

Result<TrainRequest> request_of(const TrainFlags& flags) {
  if (!flags.framework.empty() && flags.framework != "commlens") {
    return failure(
        fmt::format("--framework {}: the trainer sends what the rules of commlens say; leave "
                    "--framework out (predict and compare take {})",
                    flags.framework, flags.framework));
  }
  TrainRequest request = flags.request;
  if (const Result<void> added = flags.ranks.add_to(request); !added) {
    return tl::unexpected(added.error());
  }
  Result<Overrides> overrides = flags.layout.single();
  if (!overrides) {
    return tl::unexpected(overrides.error());
  }
  request.overrides = std::move(*overrides);
  if (!flags.decay.empty()) {
    const Result<DecayStyle> style = decay_style_from(flags.decay);
    if (!style) {
      return failure("--decay: " + style.error().message);
    }
    request.recipe.decay = *style;
  }
  request.data.vocab_file = flags.vocab_file;
  request.data.merge_file = flags.merge_file;
  request.prefetch = !flags.no_prefetch;
  request.overlap = !flags.no_overlap;
  return request;
}

}  // namespace commlens
