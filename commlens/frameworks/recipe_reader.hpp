#pragma once
#include <optional>
#include <string_view>

#include "commlens/config/map_reader.hpp"
#include "commlens/model/model_config.hpp"
#include "commlens/model/training_recipe.hpp"

namespace commlens {

/// The least and the largest value a number may have.
struct Within {
  double least = 0;
  double most = 1e6;
};
/// A number of the file, if it is there; outside of its range it is the reader's mistake.
void read_within(MapReader& reader, std::string_view key, const Within& range, std::optional<double>& value);
void read_within(MapReader& reader, std::string_view key, const Within& range, double& value);

/// The activations, as GPT-NeoX and transformers call them; another one is noted as not honoured.
void read_activation(MapReader& reader, std::string_view key, Activation& activation, TrainingRecipe& recipe);
/// init_method and output_layer_init_method of GPT-NeoX; another one is noted.
void read_init_method(MapReader& reader, std::string_view key, InitMethod& method, TrainingRecipe& recipe);
/// The style of the decay; another one than ours is noted.
void read_decay(MapReader& reader, std::string_view key, TrainingRecipe& recipe);
/// lr_decay_iters, else `iterations` (0: none), and the seed, as GPT-NeoX and Megatron name both.
void read_decay_end_and_seed(MapReader& reader, std::int64_t iterations, TrainingRecipe& recipe);
/// Notes an optimizer that is no form of Adam: our trainer has AdamW.
void note_other_optimizer(std::string_view key, std::string_view type, TrainingRecipe& recipe);

}  // namespace commlens
