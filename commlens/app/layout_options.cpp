#include "commlens/app/layout_options.hpp"

#include <array>

#include <fmt/format.h>

#include "commlens/base/text.hpp"
#include "commlens/comm/mesh.hpp"
#include "commlens/frameworks/fitting.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens {
namespace {

/// A member that takes an integer of at least one.
template <auto Member>
Result<void> set_count(Overrides& overrides, std::string_view text) {
  const Result<std::int64_t> value = parse_integer(text);
  if (!value) {
    return tl::unexpected(value.error());
  }
  if (*value < 1) {
    return failure(fmt::format("'{}' is less than 1", text));
  }
  overrides.*Member = *value;
  return {};
}

Result<void> set_zero(Overrides& overrides, std::string_view text) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '3') {
    return failure(fmt::format("'{}' is not a ZeRO stage; choose 0, 1, 2 or 3", text));
  }
  overrides.zero = text[0] - '0';
  return {};
}

Result<void> set_dtype(Overrides& overrides, std::string_view text) {
  const std::optional<DType> dtype = dtype_from(text);
  if (dtype != DType::fp32 && dtype != DType::fp16 && dtype != DType::bf16) {
    return failure(fmt::format("'{}' is not a model dtype; choose fp32, fp16 or bf16", text));
  }
  overrides.dtype = dtype;
  return {};
}

/// A member whose values `Parse` reads.
template <auto Parse, auto Member>
Result<void> set_parsed(Overrides& overrides, std::string_view text) {
  return Parse(text).map([&](const auto& value) { overrides.*Member = value; });
}

/// The same for a number of at least zero.
template <auto Parse, auto Member>
Result<void> set_from_zero(Overrides& overrides, std::string_view text) {
  const auto value = Parse(text);
  if (!value) {
    return tl::unexpected(value.error());
  }
  if (*value < 0) {
    return failure(fmt::format("'{}' is less than 0", text));
  }
  overrides.*Member = *value;
  return {};
}

/// A flag without a value.
template <auto Member>
Result<void> set_true(Overrides& overrides, std::string_view) {
  overrides.*Member = true;
  return {};
}

Result<void> set_sequence_parallel(Overrides& overrides, std::string_view text) {
  if (text != "on" && text != "off" && text != "true" && text != "false" && text != "0" && text != "1") {
    return failure(fmt::format("'{}' is neither on nor off; its degree is --tp, whose group it spans", text));
  }
  overrides.sp = text == "on" || text == "true" || text == "1";
  return {};
}

Result<void> set_rank_order(Overrides& overrides, std::string_view text) {
  return axes_in_order(text).map([&](const std::vector<Axis>&) { overrides.rank_order = text; });
}

constexpr std::array<LayoutOption, 31> k_options = {{
    {"--ranks", "N", "Processes in all", set_count<&Overrides::ranks>},
    {"--dp", "N", "Data-parallel degree", set_count<&Overrides::dp>},
    {"--tp", "N", "Tensor-parallel degree", set_count<&Overrides::tp>},
    {"--sp", "on|off", "Sequence parallelism over the tensor group", set_sequence_parallel},
    {"--pp", "N", "Pipeline stages", set_count<&Overrides::pp>},
    {"--cp", "N", "Context-parallel degree", set_count<&Overrides::cp>,
     &FrameworkRules::has_context_parallelism},
    {"--ep", "N", "Expert-parallel degree", set_count<&Overrides::ep>,
     &FrameworkRules::has_expert_parallelism},
    {"--rank-order", "AXES", "How ranks are numbered, the fastest axis first, such as tp-cp-ep-pp-dp",
     set_rank_order},
    {"--zero", "0|1|2|3", "ZeRO stage", set_zero},
    {"--micro-batch", "N", "Sequences per rank and micro-batch", set_count<&Overrides::micro_batch>},
    {"--micro-batches", "N", "Micro-batches per iteration", set_count<&Overrides::micro_batches>},
    {"--global-batch", "N", "Sequences per optimizer step, of all ranks; decides --micro-batches",
     set_count<&Overrides::global_batch>},
    {"--seq", "N", "Sequence length", set_count<&Overrides::seq>},
    {"--vocab", "N", "Vocabulary before padding", set_count<&Overrides::vocab>},
    {"--layers", "N", "Layers of the model", set_count<&Overrides::layers>},
    {"--hidden", "N", "Width of the model", set_count<&Overrides::hidden>},
    {"--heads", "N", "Attention heads", set_count<&Overrides::heads>},
    {"--dtype", "TYPE", "fp32, fp16 or bf16", set_dtype},
    {"--recompute", "MODE", "none, selective or full", set_parsed<recompute_from, &Overrides::recompute>},
    {"--attention", "MODE", "flash or eager: fused, or with scores that take memory",
     set_parsed<attention_from, &Overrides::attention>},
    {"--schedule", "NAME", "gpipe, 1f1b or interleaved", set_parsed<schedule_from, &Overrides::schedule>},
    {"--virtual-stages", "N", "Model chunks per stage", set_count<&Overrides::virtual_stages>},
    {"--bucket", "BYTES", "Gradient bucket, such as 25MiB", set_parsed<parse_bytes, &Overrides::bucket>},
    {"--clip", "NORM", "Clip gradients by global norm; 0: off",
     set_from_zero<parse_number, &Overrides::clip>},
    {"--persistence-threshold", "N", "ZeRO-3 keeps parameters of at most N elements gathered",
     set_from_zero<parse_integer, &Overrides::persistence_threshold>},
    {"--hpz", "N", "ZeRO++: ranks of a secondary partition", set_count<&Overrides::hpz>},
    {"--qwz", "", "ZeRO++: gather parameters in int8", set_true<&Overrides::qwz>},
    {"--qgz", "", "ZeRO++: reduce gradients in int4", set_true<&Overrides::qgz>},
    {"--deepspeed-like", "", "ZeRO-1, 2: gradients by all_reduce",
     set_true<&Overrides::all_reduce_gradients>},
    {"--partition-activations", "", "Split stored inputs over tensor ranks",
     set_true<&Overrides::partition_activations>},
    {"--iterations", "N", "Iterations besides initialisation", set_count<&Overrides::iterations>},
}};

/// Each combination with each value of the option.
Result<std::vector<Combination>> combined(const std::vector<Combination>& combinations,
                                          const LayoutOption& option,
                                          const std::vector<std::string>& values) {
  std::vector<Combination> next;
  for (const Combination& before : combinations) {
    for (const std::string& value : values) {
      Combination combination = before;
      if (const Result<void> set = option.set(combination.overrides, value); !set) {
        return failure(fmt::format("{}: {}", option.name, set.error().message));
      }
      if (values.size() > 1) {
        combination.swept.emplace_back(option.name, value);
      }
      next.push_back(std::move(combination));
    }
  }
  return next;
}

}  // namespace

std::span<const LayoutOption> layout_options() { return k_options; }

std::string help_of(const LayoutOption& option) {
  if (option.is_covered == nullptr) {
    return option.help;
  }
  std::vector<std::string_view> names;
  for (const FrameworkRules& rules : frameworks()) {
    if (rules.*option.is_covered) {
      names.push_back(rules.name);
    }
  }
  return fmt::format("{}: {}", option.help, listed_names(std::move(names)));
}

std::vector<std::string> comma_list(std::string_view text) {
  std::vector<std::string> values;
  while (true) {
    const std::size_t comma = text.find(',');
    values.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) {
      return values;
    }
    text.remove_prefix(comma + 1);
  }
}

Result<std::vector<Combination>> combinations_of(const LayoutValues& given) {
  constexpr std::size_t most = 10'000;
  std::vector<Combination> combinations(1);
  for (const LayoutOption& option : k_options) {
    const auto found = given.find(option.name);
    if (found == given.end()) {
      continue;
    }
    const std::vector<std::string> values = comma_list(found->second);
    if (values.size() > most / combinations.size()) {
      return failure(
          fmt::format("{}: the lists make more than {} combinations; shorten one", option.name, most));
    }
    Result<std::vector<Combination>> next = combined(combinations, option, values);
    if (!next) {
      return next;
    }
    combinations = std::move(*next);
  }
  return combinations;
}

Result<Overrides> overrides_of(const LayoutValues& given) {
  Result<std::vector<Combination>> all = combinations_of(given);
  if (!all) {
    return tl::unexpected(all.error());
  }
  if (all->size() > 1) {
    return failure(
        fmt::format("{}: only predict sweeps over lists; give one value", all->front().swept.front().first));
  }
  return all->front().overrides;
}

}  // namespace commlens
