#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/model/job.hpp"
#include "commlens/model/parameters.hpp"

namespace commlens {

/// One step of a stage's forward pass in our own trainer: the embedding, a transformer block, or the final
/// norm with the head.
enum class ModuleRole : std::uint8_t { embedding, block, head };

/// A parameter as one rank of our trainer holds it. A column split divides dimension 0 (here also the rows of
/// the vocabulary, wte), a row split dimension 1.
struct HeldParameter {
  std::string name;                 // "layers.3.fc1.weight", as ParameterList has it
  std::vector<std::int64_t> whole;  // shape before the tensor split
  std::vector<std::int64_t> shape;  // on this rank
  TensorSplit split = TensorSplit::replicated;
  std::int64_t count = 0;  // product of `shape`
  bool decays = true;
};

/// A module of a stage. `parameters` are rows of its chunk's table; a tied head uses wte besides its own.
struct HeldModule {
  ModuleRole role = ModuleRole::block;
  std::int64_t layer = -1;
  std::vector<std::size_t> parameters;
};

/// The modules one model chunk of a stage holds, in the order of the forward pass. `tied_copy` marks the
/// parameter that another stage holds too (tied embeddings with pp > 1: wte on the first and the last stage),
/// or -1.
struct HeldChunk {
  std::vector<HeldParameter> parameters;
  std::vector<HeldModule> modules;
  std::int64_t tied_copy = -1;
};

/// The chunks of pipeline stage `stage`, one, or `virtual_stages` of them under the interleaved schedule:
/// chunk c of stage i is part c * pp + i of the pp * virtual_stages parts of the model. Layers are spread
/// evenly, the first parts one more (partition_uniform); the first part holds the embedding, the last one the
/// head.
std::vector<HeldChunk> held_chunks(const Job& job, std::int64_t stage);
/// The same with the model's parameters already listed.
std::vector<HeldChunk> held_chunks(const Job& job, const ParameterList& all, std::int64_t stage);

/// A contiguous piece of memory for parameters that are gathered, reduced and sharded together. Stages 0-2 of
/// ZeRO: a bucket of gradients in the order backward finishes them (the parameters of the chunk in reverse).
/// Stage 3: the parameters of one module above the persistence threshold, in forward order.
struct FlatUnit {
  std::string tag;                      // "bucket", "layers", "embedding", "head", "persistent", "wte"
  std::vector<std::size_t> parameters;  // rows of the chunk's table, in memory order
  std::int64_t count = 0;               // their elements
  std::int64_t padded = 0;              // count rounded up to a multiple of dp
  bool is_persistent = false;           // stage 3: kept gathered; all small parameters of the chunk
  bool is_tied_copy = false;            // holds the parameter that the first and the last stage share
};

/// Units of a chunk. Stages 0-2: a unit closes when its elements reach the bucket size
/// (trainer::Options::bucket / size of the dtype), and never crosses a chunk. Stage 3: per module one unit of
/// the parameters with more than `persistence_threshold` elements, then one persistent unit of all others. A
/// tied wte is always a unit of its own, whatever its size: in stages 0-2 at its position in the order, in
/// stage 3 before the other unit of the module that owns it. Every unit is non-empty.
std::vector<FlatUnit> flat_units(const Job& job, const HeldChunk& chunk);

/// The units (rows of flat_units) a module's parameters lie in, ascending, persistent ones skipped.
std::vector<std::size_t> units_of(const HeldModule& module, const std::vector<FlatUnit>& units);
/// The same for every module of a chunk, in time that grows with the chunk.
std::vector<std::vector<std::size_t>> units_of_modules(const HeldChunk& chunk,
                                                       const std::vector<FlatUnit>& units);

/// Bytes that `count` elements take as int8 (qwZ) or int4 (qgZ) with one fp32 scale per block of 256.
/// Source of the block size: ZeRO++, arXiv 2306.10209 uses blocks; 256 is our choice.
constexpr std::int64_t k_quantized_block = 256;
constexpr std::int64_t int8_bytes(std::int64_t count) {
  return count + 4 * ((count + k_quantized_block - 1) / k_quantized_block);
}
constexpr std::int64_t int4_bytes(std::int64_t count) {
  return (count + 1) / 2 + 4 * ((count + k_quantized_block - 1) / k_quantized_block);
}

}  // namespace commlens
