#include "commlens/frameworks/recipe_reader.hpp"

#include <algorithm>
#include <cctype>
#include <string>

#include <fmt/format.h>

#include "commlens/frameworks/training_keys.hpp"

namespace commlens {
namespace {

using ActivationName = std::pair<std::string_view, Activation>;
constexpr ActivationName k_activations[] = {{"gelu", Activation::gelu},
                                            {"gelu_new", Activation::gelu_tanh},
                                            {"gelu_fast", Activation::gelu_tanh},
                                            {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                            {"quick_gelu", Activation::gelu_sigmoid},
                                            {"relu", Activation::relu},
                                            {"silu", Activation::silu},
                                            {"swish", Activation::silu},
                                            {"mish", Activation::mish},
                                            {"softsign", Activation::softsign}};
using MethodName = std::pair<std::string_view, InitMethod>;
constexpr MethodName k_methods[] = {{"normal", InitMethod::normal},
                                    {"scaled_normal", InitMethod::scaled_normal},
                                    {"small_init", InitMethod::small},
                                    {"wang_init", InitMethod::wang},
                                    {"xavier_normal", InitMethod::xavier_normal},
                                    {"xavier_uniform", InitMethod::xavier_uniform}};

constexpr std::string_view k_forms_of_adamw = "adam adamw fusedadam cpuadam cpu_adam";  // in lower case

/// The value by one of these names; another one is noted and changes nothing.
template <typename Names, typename Value>
void choose_or_note(MapReader& reader, std::string_view key, const Names& names, Value& value,
                    TrainingRecipe& recipe) {
  std::string text;
  reader.read(key, text);
  if (text.empty()) {
    return;
  }
  std::string_view kept;
  for (const auto& [name, meaning] : names) {
    if (text == name) {
      value = meaning;
      return;
    }
    kept = kept.empty() && meaning == value ? name : kept;
  }
  recipe.not_honoured.push_back(not_honoured_text(key, shown_text(text), kept));
}

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return lower;
}

}  // namespace

void read_within(MapReader& reader, std::string_view key, const Within& range, double& value) {
  double number = value;
  reader.read(key, number);
  if (!reader.has(key)) {
    return;
  }
  if (!(number >= range.least && number <= range.most)) {
    reader.fail(key, fmt::format("is {}; it must be from {} to {}", number, range.least, range.most));
  }
  value = number;
}

void read_within(MapReader& reader, std::string_view key, const Within& range, std::optional<double>& value) {
  double number = 0;
  read_within(reader, key, range, number);
  if (reader.has(key)) {
    value = number;
  }
}

void read_activation(MapReader& reader, std::string_view key, Activation& activation,
                     TrainingRecipe& recipe) {
  choose_or_note(reader, key, k_activations, activation, recipe);
}

void read_init_method(MapReader& reader, std::string_view key, InitMethod& method, TrainingRecipe& recipe) {
  choose_or_note(reader, key, k_methods, method, recipe);
}

void read_decay(MapReader& reader, std::string_view key, TrainingRecipe& recipe) {
  std::string text;
  reader.read(key, text);
  if (text.empty()) {
    return;
  }
  if (const Result<DecayStyle> style = decay_style_from(text)) {
    recipe.decay = *style;
  } else {
    recipe.not_honoured.push_back(
        not_honoured_text(key, shown_text(text), name_of(recipe.decay.value_or(DecayStyle::cosine))));
  }
}

void read_decay_end_and_seed(MapReader& reader, std::int64_t iterations, TrainingRecipe& recipe) {
  reader.read("lr_decay_iters", iterations);
  if (iterations > 0) {
    recipe.decay_iterations = iterations;
  }
  std::int64_t seed = 1234;
  reader.read("seed", seed, 0);
  recipe.seed = seed;
}

void note_other_optimizer(std::string_view key, std::string_view type, TrainingRecipe& recipe) {
  if (!type.empty() && !is_one_of(in_lower_case(type), k_forms_of_adamw)) {
    recipe.not_honoured.push_back(not_honoured_text(key, shown_text(type), "AdamW"));
  }
}

}  // namespace commlens
