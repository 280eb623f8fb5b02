#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/config/map_reader.hpp"
#include "commlens/config/tree.hpp"
#include "commlens/model/training_recipe.hpp"

namespace commlens {

/// A key that can change the numbers of a training and that our trainer does not have.
struct UnhonouredKey {
  std::string_view name;
  std::string_view neutral;  // values that change nothing, separated by spaces; off: what is_off
                             // accepts; sequence: at least the sequence length
  std::string_view instead;  // what the trainer does
};

/// Every key of one source, in exactly one of four lists; words with spaces between them. Keys of a section
/// are written section.key. docs/training.md#keys-of-configurations shows the table.
struct TrainingKeys {
  std::string_view honoured;    // the trainer does what they say
  std::string_view irrelevant;  // they change no number: files, logs, how something is computed, other models
  std::string_view refused;  // values that ask for something are refused, or named as skipped, by the readers
  std::span<const UnhonouredKey> warned;  // named in a warning of `train`
};

enum class KeyUse : std::uint8_t { honoured, irrelevant, refused, warned };
/// What becomes of a key, "zero_optimization.stage" within sections; std::nullopt where the source does not
/// have it.
std::optional<KeyUse> use_of(const TrainingKeys& keys, std::string_view key);

/// All keys of a source, without those inside sections.
std::vector<std::string_view> known_keys(const TrainingKeys& keys);
/// Whether a key is one of them.
bool is_known_key(const TrainingKeys& keys, std::string_view key);

/// The keys of `map` that would change the numbers, as "attention_dropout=0.1 (no dropout)", in the order of
/// the table.
std::vector<std::string> not_honoured(const ConfigNode& map, const TrainingKeys& keys);

/// Notes those keys of `map`, which `reader` reads, in `recipe`, and accepts all others of the source.
void accept_known_keys(MapReader& reader, const ConfigNode& map, const TrainingKeys& keys,
                       TrainingRecipe& recipe);

/// The same text for a key that a reader has read itself.
std::string not_honoured_text(std::string_view key, std::string_view value, std::string_view instead);

}  // namespace commlens
