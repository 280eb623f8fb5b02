#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "commlens/config/map_reader.hpp"
#include "commlens/model/job.hpp"

namespace commlens::megatron {

/// The parts that the reader of arguments consists of. Each takes the arguments of its topic.

/// `padded_vocab` is the vocabulary the run really had, 0 when it follows from the arguments.
void read_model(MapReader& arguments, Job& job, std::int64_t padded_vocab);
/// Experts, latent attention, multi-token prediction: what a model has beside dense layers.
void read_newer_model(MapReader& arguments, Job& job);
void read_layout(MapReader& arguments, Job& job);
void read_precision(MapReader& arguments, Job& job);
void read_gradients(MapReader& arguments, Job& job);
void read_recompute(MapReader& arguments, Job& job);
void read_experts(MapReader& arguments, Job& job);
/// Loss, evaluation, logs, signals.
void read_loop(MapReader& arguments, Job& job);
/// The optimizer and its schedule: no message depends on them.
void read_recipe(MapReader& arguments, Job& job);

/// A list of words, however it is written: a list, words with blanks between them, one word.
std::vector<std::string> read_words(MapReader& arguments, std::string_view key);

}  // namespace commlens::megatron
