#include "commlens/model/job.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/sums.hpp"
#include "commlens/base/text.hpp"

namespace commlens {
namespace {

constexpr std::int64_t k_most_layers = 10'000;
constexpr std::int64_t k_most_expert_layers = 100'000;
constexpr std::int64_t k_most_layer_passes = 2'000'000;  // of all stages: call lists of about 1 GB
constexpr std::int64_t k_most_stages = 2'048;
constexpr std::int64_t k_most_bytes = std::int64_t{1} << 62;

using Check = Result<void>;
using Field = std::pair<std::string_view, std::int64_t>;

Check all_positive(std::initializer_list<Field> fields) {
  for (const auto& [name, value] : fields) {
    if (value < 1) {
      return failure(fmt::format("{} is {}; it must be at least 1", name, value));
    }
  }
  return {};
}

/// Whether the product of positive numbers stays within k_most_bytes.
bool fits(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  return std::all_of(factors.begin(), factors.end(), [&](std::int64_t factor) {
    return !__builtin_mul_overflow(product, factor, &product) && product <= k_most_bytes;
  });
}

/// "1, 2, 3, 4, 6 or 12": the divisors of `number`, the larger ones skipped when there are many.
std::string divisors_in_words(std::int64_t number) {
  constexpr std::int64_t largest = 512;
  std::vector<std::string> divisors;
  for (std::int64_t divisor = 1; divisor <= std::min(number, largest); ++divisor) {
    if (number % divisor == 0) {
      divisors.push_back(std::to_string(divisor));
    }
  }
  const std::string last = divisors.back();
  divisors.pop_back();
  return divisors.empty() ? last : fmt::format("{} or {}", fmt::join(divisors, ", "), last);
}

Check divisible(std::string_view what, std::int64_t number, std::int64_t tp) {
  if (number % tp != 0) {
    return failure(fmt::format("{} {} are not divisible by tp {}; use tp {}", number, what, tp,
                               divisors_in_words(number)));
  }
  return {};
}

Check fill_in_defaults(ModelConfig& model) {
  if (const Check sizes =
          all_positive({{"layers", model.layers}, {"hidden", model.hidden}, {"heads", model.heads}});
      !sizes) {
    return sizes;
  }
  if (model.head_dim == 0) {
    if (model.hidden % model.heads != 0) {
      return failure(fmt::format("hidden {} is not divisible by {} heads; change one, or give head_dim",
                                 model.hidden, model.heads));
    }
    model.head_dim = model.hidden / model.heads;
  }
  model.kv_heads = model.kv_heads == 0 ? model.heads : model.kv_heads;
  if (model.ffn_hidden == 0 && fits({4, model.hidden})) {
    model.ffn_hidden = 4 * model.hidden;
  }
  model.max_positions = model.max_positions == 0 ? model.sequence : model.max_positions;
  model.raw_vocab = model.raw_vocab == 0 ? model.vocab : model.raw_vocab;
  return all_positive({{"sequence", model.sequence},
                       {"vocab", model.raw_vocab},
                       {"kv_heads", model.kv_heads},
                       {"head_dim", model.head_dim},
                       {"ffn_hidden", model.ffn_hidden},
                       {"max_positions", model.max_positions},
                       {"vocab_multiple", model.vocab_multiple}});
}

Check sizes_fit(const Job& job) {
  const ModelConfig& model = job.model;
  const TrainConfig& train = job.train;
  if (model.layers > k_most_layers) {
    return failure(fmt::format("layers is {}; at most {} are supported", model.layers, k_most_layers));
  }
  if (model.experts > k_most_expert_layers / model.layers) {
    return failure(fmt::format("{} layers of {} experts; at most {} expert layers are supported",
                               model.layers, model.experts, k_most_expert_layers));
  }
  const std::int64_t experts = std::max<std::int64_t>(model.experts, 1);
  constexpr std::int64_t bytes =
      256;  // 16 bytes of model states per parameter, and room to add such terms up
  const bool parameters_fit = fits({bytes, model.raw_vocab, model.hidden}) &&
                              fits({bytes, model.max_positions, model.hidden}) &&
                              fits({bytes, model.vocab_multiple, job.layout.tp, model.hidden}) &&
                              fits({bytes, model.layers, experts, 3, model.ffn_hidden, model.hidden}) &&
                              fits({bytes, model.layers, 3, model.heads, model.head_dim, model.hidden}) &&
                              fits({bytes, model.layers, 3, model.kv_heads, model.head_dim, model.hidden}) &&
                              fits({bytes, model.layers, model.hidden, model.hidden});
  if (!parameters_fit) {
    return failure(
        "the model has more than 2^54 parameters; check layers, hidden, ffn_hidden, vocab and experts");
  }
  const std::int64_t top_k = std::max<std::int64_t>(model.top_k, 1);
  const std::int64_t batches = std::max<std::int64_t>(train.micro_batches, 1);
  const std::int64_t widest = std::max({model.hidden, model.ffn_hidden, model.sequence});
  if (!fits({bytes, train.micro_batch, model.sequence, widest, top_k, model.layers, batches})) {
    return failure(
        "an iteration moves more than 2^54 activations; check sequence, micro_batch and micro_batches");
  }
  if (!fits({bytes, train.micro_batch, model.heads, model.sequence, model.sequence})) {
    return failure("a layer has more than 2^54 attention scores; check sequence, heads and micro_batch");
  }
  if (!fits({bytes, train.micro_batch, model.sequence, model.raw_vocab, batches}) ||
      !fits({bytes, train.micro_batch, model.sequence, model.vocab_multiple, job.layout.tp, batches})) {
    return failure(
        "an iteration has more than 2^54 logits; check vocab, sequence, micro_batch and micro_batches");
  }
  return {};
}

Check train_is_possible(const Job& job) {
  const TrainConfig& train = job.train;
  const std::int64_t open = job.global_batch > 0 ? 1 : 0;  // what a global batch decides may be left at 0
  if (const Check sizes =
          all_positive({{"iterations", job.iterations},
                        {"the global batch", job.global_batch == 0 ? 1 : job.global_batch},
                        {"micro_batch", train.micro_batch == 0 ? open : train.micro_batch},
                        {"micro_batches", train.micro_batches == 0 ? open : train.micro_batches}});
      !sizes) {
    return sizes;
  }
  if (job.iterations > k_most_layer_passes) {
    return failure(
        fmt::format("iterations is {}; at most {} are supported", job.iterations, k_most_layer_passes));
  }
  if (train.dtype != DType::fp32 && train.dtype != DType::fp16 && train.dtype != DType::bf16) {
    return failure(fmt::format("a model is trained in fp32, fp16 or bf16, not in {}", name_of(train.dtype)));
  }
  if (train.zero_stage < 0 || train.zero_stage > 3) {
    return failure(fmt::format("ZeRO stage {} does not exist; use 0, 1, 2 or 3", train.zero_stage));
  }
  return {};
}

Check model_divides(const Job& job, bool splits_heads_of_groups) {
  const ModelConfig& model = job.model;
  const std::int64_t tp = job.layout.splitting_ranks();
  if (model.heads % model.kv_heads != 0) {
    return failure(fmt::format("{} heads are not divisible by {} kv_heads", model.heads, model.kv_heads));
  }
  const bool shares_heads = splits_heads_of_groups && tp % model.kv_heads == 0;
  const std::array<Field, 4> split = {{{"heads", model.heads},
                                       {"key/value heads", shares_heads ? model.heads : model.kv_heads},
                                       {"MLP columns (ffn_hidden)", model.ffn_hidden},
                                       {"vocabulary rows", model.vocab}}};
  for (const auto& [what, number] : split) {
    if (const Check ok = divisible(what, number, tp); !ok) {
      return ok;
    }
  }
  if (job.layout.sequence_parallel && model.sequence % tp != 0) {
    return failure(fmt::format("sequence {} is not divisible by tp {}, which sequence parallelism needs",
                               model.sequence, tp));
  }
  if (model.sequence % job.layout.cp != 0) {
    return failure(fmt::format("sequence {} is not divisible by cp {}", model.sequence, job.layout.cp));
  }
  if (model.positions == Positions::learned && model.sequence > model.max_positions) {
    return failure(fmt::format("sequence {} is longer than the table of {} learned positions", model.sequence,
                               model.max_positions));
  }
  return {};
}

Check experts_divide(const Job& job) {
  const ModelConfig& model = job.model;
  if (model.experts < 0 || model.top_k < 0) {
    return failure("experts and top_k must not be negative");
  }
  if (model.experts == 0) {
    return job.layout.ep == 1
               ? Check{}
               : failure(fmt::format("ep {} needs a mixture of experts; this model is dense", job.layout.ep));
  }
  if (model.top_k < 1 || model.top_k > model.experts) {
    return failure(fmt::format("top_k is {}; with {} experts it must be 1 to {}", model.top_k, model.experts,
                               model.experts));
  }
  if (model.experts % job.layout.ep != 0) {
    return failure(fmt::format("{} experts are not divisible by ep {}; use ep {}", model.experts,
                               job.layout.ep, divisors_in_words(model.experts)));
  }
  return {};
}

Check pipeline_divides(const Job& job, bool takes_uneven_stages) {
  const ParallelLayout& layout = job.layout;
  if (layout.virtual_stages > 1 && layout.pp == 1) {
    return failure(fmt::format("{} virtual stages need a pipeline; use --pp, or leave --virtual-stages out",
                               layout.virtual_stages));
  }
  if (layout.pp > k_most_stages) {
    return failure(fmt::format("pp is {}; at most {} stages are supported", layout.pp, k_most_stages));
  }
  const std::int64_t chunks = layout.pp * layout.virtual_stages;
  // Embedding, norm and head may fill stages of their own (a model may be listed as L + 5 layers); the rule
  // set decides.
  const bool holds_layers = layout.virtual_stages > 1 && !takes_uneven_stages;
  const std::int64_t most_items = job.model.layers + (holds_layers ? 0 : 5);
  if (layout.virtual_stages > job.model.layers || chunks > most_items) {
    return failure(fmt::format("{} layers do not fill {} pipeline stages{}; use a smaller --pp",
                               job.model.layers, layout.pp,
                               layout.virtual_stages > 1 ? " with their virtual stages" : ""));
  }
  if (layout.virtual_stages > 1 && job.model.layers % chunks != 0 && !takes_uneven_stages) {
    return failure(
        fmt::format("{} layers are not divisible by {} pipeline stages (pp x virtual stages); use pp {}",
                    job.model.layers, chunks, divisors_in_words(job.model.layers / layout.virtual_stages)));
  }
  return {};
}

/// Fills in what a global batch leaves open of: global batch = micro-batch x micro-batches x dp.
Check apply_global_batch(Job& job) {
  TrainConfig& train = job.train;
  const bool micro_batch_is_open = train.micro_batch == 0;
  if (micro_batch_is_open && train.micro_batches == 0) {
    train.micro_batches = 1;
  }
  const std::int64_t known = micro_batch_is_open ? train.micro_batches : train.micro_batch;
  std::int64_t divisor = 0;
  if (__builtin_mul_overflow(known, job.layout.dp, &divisor) || job.global_batch % divisor != 0) {
    return failure(fmt::format("the global batch {} is not divisible by {} {} x dp {}; change one of them",
                               job.global_batch, micro_batch_is_open ? "micro-batches" : "micro-batch", known,
                               job.layout.dp));
  }
  const std::int64_t quotient = job.global_batch / divisor;
  if (micro_batch_is_open) {
    train.micro_batch = quotient;
  } else if (train.micro_batches == 0) {
    train.micro_batches = quotient;
  } else if (train.micro_batches != quotient) {
    return failure(
        fmt::format("the global batch {} is not micro-batch {} x {} micro-batches x dp {}; "
                    "change one of them or --ranks",
                    job.global_batch, train.micro_batch, train.micro_batches, job.layout.dp));
  }
  return {};
}

Check settle_batches(Job& job) {
  if (job.global_batch > 0) {
    if (const Check ok = apply_global_batch(job); !ok) {
      return ok;
    }
  }
  // A stage without layers has messages too.
  const std::int64_t layers = std::max(job.model.layers, job.layout.pp);
  if (job.train.micro_batches > k_most_layer_passes / layers) {
    return failure(
        fmt::format("{} micro-batches of {} layers is more than {} layer passes an iteration; use fewer "
                    "micro-batches",
                    job.train.micro_batches, layers, k_most_layer_passes));
  }
  return {};
}

/// A tensor group of one rank has nothing to split.
void settle_sequence_parallelism(Job& job) {
  if (job.layout.sequence_parallel && job.layout.tp == 1) {
    job.layout.sequence_parallel = false;
    job.warnings.emplace_back(
        "sequence parallelism has no effect at tp 1: it splits over the tensor ranks; use --tp 2 or more");
  }
}

}  // namespace

void set_recompute(Job& job, Recompute recompute) {
  job.train.recompute = recompute;
  job.train.partition_activations = job.train.partition_activations && recompute == Recompute::full;
}

std::int64_t sequences_per_iteration(const Job& job) {
  return saturating_product(saturating_product(job.layout.dp, job.train.micro_batch),
                            job.train.micro_batches);
}

Result<Job> checked(Job job, const JobHooks& hooks) {
  const auto stop = [](const Check& check) { return tl::unexpected(check.error()); };
  if (const Check ok = fill_in_defaults(job.model); !ok) {
    return stop(ok);
  }
  if (const Check ok = train_is_possible(job); !ok) {
    return stop(ok);
  }
  const Result<ParallelLayout> layout = resolved(job.layout);
  if (!layout) {
    return tl::unexpected(layout.error());
  }
  job.layout = *layout;
  settle_sequence_parallelism(job);
  if (hooks.settle != nullptr) {
    hooks.settle(job);
  }
  if (const Check ok = sizes_fit(job); !ok) {
    return stop(ok);
  }
  job.model = with_padded_vocab(job.model, job.layout.splitting_ranks());
  if (hooks.pads_to_tensor_ranks && !job.model.vocab_is_padded) {
    job.model.vocab = round_up(job.model.vocab, job.layout.tp);
  }
  if (job.layout.virtual_stages > 1) {
    job.train.schedule = Schedule::interleaved;
  }
  if (const Check ok = model_divides(job, hooks.splits_heads_of_groups); !ok) {
    return stop(ok);
  }
  if (const Check ok = experts_divide(job); !ok) {
    return stop(ok);
  }
  if (const Check ok = pipeline_divides(job, hooks.takes_uneven_stages); !ok) {
    return stop(ok);
  }
  if (const Check ok = settle_batches(job); !ok) {
    return stop(ok);
  }
  if (const Check ok = sizes_fit(job); !ok) {
    return stop(ok);
  }
  return job;
}

}  // namespace commlens
