#include "commlens/frameworks/megatron/stage_layout.hpp"

#include <algorithm>
#include <charconv>
#include <string>

#include <fmt/format.h>

#include "commlens/config/tree.hpp"
#include "commlens/frameworks/megatron/options.hpp"

namespace commlens::megatron {
namespace {

constexpr std::size_t k_longest_layout = 100'000;  // of one written out

/// "x*3" and "(x)*3" as "xxx"; a count that makes too much of it is left as it is, which no layer is called.
std::string with_repeats(std::string text, bool of_brackets) {
  std::size_t from = 0;
  for (std::size_t star = text.find('*'); star != std::string::npos; star = text.find('*', from)) {
    from = star + 1;
    std::size_t first = star - (star > 0 ? 1 : 0);
    std::size_t last = first;
    if (of_brackets) {
      if (star < 2 || text[star - 1] != ')') {
        continue;
      }
      first = text.rfind('(', star);
      last = star - 1;
    }
    std::int64_t count = 0;
    const char* const end = text.data() + text.size();
    const auto number = std::from_chars(text.data() + star + 1, end, count);
    const std::string unit = first == std::string::npos ? ""
                                                        : text.substr(first + (of_brackets ? 1 : 0),
                                                                      of_brackets ? last - first - 1 : 1);
    const std::size_t after = static_cast<std::size_t>(number.ptr - text.data());
    if (unit.empty() || after == star + 1 || count < 0 ||
        static_cast<std::size_t>(count) * unit.size() > k_longest_layout) {
      continue;
    }
    std::string repeated;
    for (std::int64_t i = 0; i < count; ++i) {
      repeated += unit;
    }
    text = text.substr(0, first) + repeated + text.substr(after);
    from = first + repeated.size();
    if (text.size() > k_longest_layout) {
      break;
    }
  }
  return text;
}

/// The parts of a layout, written out.
std::vector<std::string> written_out(std::string layout) {
  std::erase(layout, ',');
  layout = with_repeats(with_repeats(std::move(layout), true), false);
  std::vector<std::string> parts(1);
  for (const char letter : layout) {
    if (letter == '|') {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

Result<StageLayouts> custom_layouts(const Job& job) {
  const std::string& text = options(job).stage_layout;
  const std::vector<std::string> parts = written_out(text);
  const std::int64_t stages = job.layout.pp;
  const auto refused = [&](std::string_view why) {
    return failure(fmt::format("pipeline-model-parallel-layout '{}' {}", shown_text(text), why));
  };
  if (std::ssize(parts) != stages * job.layout.virtual_stages) {
    return refused(fmt::format("has {} parts for {} stages of {} chunks", parts.size(), stages,
                               job.layout.virtual_stages));
  }
  StageLayouts layouts(static_cast<std::size_t>(stages));
  std::int64_t layer = 0;
  std::int64_t predicted = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    ChunkLayout chunk{.first_layer = layer};
    for (const char letter : parts[part]) {
      chunk.layers += letter == 't' ? 1 : 0;
      chunk.mtp_layers += letter == 'm' ? 1 : 0;
      chunk.has_embedding |= letter == 'E';
      chunk.has_loss |= letter == 'L';
      if (std::string_view("EtmL").find(letter) == std::string_view::npos) {
        return refused("has other letters than E, t, m and L");
      }
    }
    const bool is_first = part == 0;
    const bool is_last = part + 1 == parts.size();
    if (chunk.has_embedding != is_first || chunk.has_loss != is_last) {
      return refused("does not begin with E and end with L");
    }
    if (chunk.mtp_layers > 0 && !is_last) {
      return refused("has layers of multi-token prediction on a part of their own, which has no rules here");
    }
    layer += chunk.layers;
    predicted += chunk.mtp_layers;
    layouts[part % static_cast<std::size_t>(stages)].push_back(chunk);
  }
  if (layer != job.model.layers || predicted != options(job).mtp_layers) {
    return refused(fmt::format("has {} layers and {} of multi-token prediction, the model {} and {}", layer,
                               predicted, job.model.layers, options(job).mtp_layers));
  }
  return layouts;
}

/// The layers of each stage, the embedding and the loss counted where they count as layers.
Result<std::vector<std::int64_t>> layers_per_stage(const Job& job) {
  const Options& own = options(job);
  const std::int64_t stages = job.layout.pp;
  const std::int64_t counted =
      job.model.layers + (own.embedding_counts_as_layer ? 1 : 0) + (own.loss_counts_as_layer ? 1 : 0);
  const std::int64_t fixed = own.layers_of_first_stage + own.layers_of_last_stage;
  const std::int64_t others =
      stages - (own.layers_of_first_stage > 0 ? 1 : 0) - (own.layers_of_last_stage > 0 ? 1 : 0);
  if (fixed > 0 && counted != job.model.layers) {
    return failure(
        "account-for-embedding-in-pipeline-split and account-for-loss-in-pipeline-split do not go with "
        "decoder-first-pipeline-num-layers and decoder-last-pipeline-num-layers");
  }
  const std::int64_t left = counted - fixed;
  if (others < 0 || left < 0 || (others == 0 && left != 0) || (others > 0 && left % others != 0)) {
    return failure(
        fmt::format("{} layers cannot be divided over {} stages", left, std::max<std::int64_t>(others, 0)));
  }
  std::vector<std::int64_t> layers(static_cast<std::size_t>(stages), others > 0 ? left / others : 0);
  layers.front() = own.layers_of_first_stage > 0 ? own.layers_of_first_stage : layers.front();
  layers.back() = own.layers_of_last_stage > 0 ? own.layers_of_last_stage : layers.back();
  return layers;
}

Result<StageLayouts> even_layouts(const Job& job) {
  const Options& own = options(job);
  const std::int64_t stages = job.layout.pp;
  const std::int64_t chunks = job.layout.virtual_stages;
  const Result<std::vector<std::int64_t>> layers = layers_per_stage(job);
  if (!layers) {
    return tl::unexpected(layers.error());
  }
  StageLayouts layouts(static_cast<std::size_t>(stages));
  std::int64_t first = 0;
  for (std::int64_t part = 0; part < stages * chunks; ++part) {
    const std::int64_t of_stage = (*layers)[static_cast<std::size_t>(part % stages)];
    if (of_stage % chunks != 0) {
      return failure(
          fmt::format("{} layers of a stage are not divisible by {} virtual stages", of_stage, chunks));
    }
    ChunkLayout chunk{.first_layer = first, .layers = of_stage / chunks};
    chunk.has_embedding = part == 0;
    chunk.has_loss = part + 1 == stages * chunks;
    chunk.layers -= (chunk.has_embedding && own.embedding_counts_as_layer ? 1 : 0) +
                    (chunk.has_loss && own.loss_counts_as_layer ? 1 : 0);
    chunk.mtp_layers = chunk.has_loss ? own.mtp_layers : 0;
    if (chunk.layers < 0) {
      return failure("the embedding or the loss counts as a layer of a stage that has none");
    }
    first += chunk.layers;
    layouts[static_cast<std::size_t>(part % stages)].push_back(chunk);
  }
  return layouts;
}

}  // namespace

std::int64_t parts_of_layout(const std::string& layout) { return std::ssize(written_out(layout)); }

Result<StageLayouts> stage_layouts(const Job& job) {
  Result<StageLayouts> layouts = options(job).stage_layout.empty() ? even_layouts(job) : custom_layouts(job);
  if (!layouts) {
    return layouts;
  }
  // With multi-token prediction the final norm is behind the last layer, else where the loss is
  // (transformer_block.py:387 has_final_layernorm_in_this_stage).
  for (std::vector<ChunkLayout>& stage : *layouts) {
    for (ChunkLayout& chunk : stage) {
      const bool has_last_layer = chunk.layers > 0 && chunk.first_layer + chunk.layers == job.model.layers;
      chunk.has_final_norm = options(job).mtp_layers > 0 ? has_last_layer : chunk.has_loss;
    }
  }
  return layouts;
}

}  // namespace commlens::megatron
