#include "commlens/frameworks/commlens/flat_units.hpp"

#include <numeric>

#include <gtest/gtest.h>

#include "commlens/frameworks/commlens/options.hpp"
#include "commlens/frameworks/frameworks.hpp"

namespace commlens {
namespace {

/// h = 8, 2 heads of 4, s = 4, V = 16, learned positions; per block of h = 8: ln 8 + 8, qkv 192 + 24, proj 64
/// + 8, ln 8 + 8, fc1 256 + 32, fc2 256 + 8: 872 elements. wte and head 128, wpe 32, norm 16.
Job tiny_job(std::int64_t layers) {
  Job job;
  job.framework = "commlens";
  ModelConfig& model = job.model;
  model.layers = layers;
  model.hidden = 8;
  model.heads = 2;
  model.sequence = 4;
  model.vocab = 16;
  model.positions = Positions::learned;
  trainer::options(job).bucket = Bytes{400 * 4};
  job.train.persistence_threshold = 100;
  return job;
}

HeldChunk only_chunk(const Job& job, std::int64_t stage = 0) {
  return held_chunks(validated(job).value(), stage).at(0);
}

std::vector<std::string> names_of(const HeldChunk& chunk) {
  std::vector<std::string> names;
  for (const HeldParameter& parameter : chunk.parameters) {
    names.push_back(parameter.name);
  }
  return names;
}

struct UnitShape {
  std::string tag;
  std::vector<std::size_t> parameters;
  std::int64_t count = 0;
  std::int64_t padded = 0;
  bool is_persistent = false;
  bool is_tied_copy = false;
  friend bool operator==(const UnitShape&, const UnitShape&) = default;
  friend std::ostream& operator<<(std::ostream& out, const UnitShape& unit) {
    out << unit.tag << " of " << unit.count << " padded " << unit.padded << " rows";
    for (const std::size_t row : unit.parameters) {
      out << ' ' << row;
    }
    return out << (unit.is_persistent ? " persistent" : "") << (unit.is_tied_copy ? " tied" : "");
  }
};

std::vector<UnitShape> units_in(const Job& job, const HeldChunk& chunk) {
  std::vector<UnitShape> shapes;
  for (const FlatUnit& unit : flat_units(validated(job).value(), chunk)) {
    shapes.push_back(
        {unit.tag, unit.parameters, unit.count, unit.padded, unit.is_persistent, unit.is_tied_copy});
  }
  return shapes;
}

TEST(HeldChunks, OneRankHoldsTheWholeModelInForwardOrder) {
  const HeldChunk chunk = only_chunk(tiny_job(1));
  EXPECT_EQ(names_of(chunk),
            std::vector<std::string>({"wte.weight", "wpe.weight", "layers.0.ln1.weight", "layers.0.ln1.bias",
                                      "layers.0.qkv.weight", "layers.0.qkv.bias", "layers.0.proj.weight",
                                      "layers.0.proj.bias", "layers.0.ln2.weight", "layers.0.ln2.bias",
                                      "layers.0.fc1.weight", "layers.0.fc1.bias", "layers.0.fc2.weight",
                                      "layers.0.fc2.bias", "norm.weight", "norm.bias", "head.weight"}));
  ASSERT_EQ(chunk.modules.size(), 3U);
  EXPECT_EQ(chunk.modules[0].role, ModuleRole::embedding);
  EXPECT_EQ(chunk.modules[0].parameters, std::vector<std::size_t>({0, 1}));
  EXPECT_EQ(chunk.modules[1].role, ModuleRole::block);
  EXPECT_EQ(chunk.modules[1].layer, 0);
  EXPECT_EQ(chunk.modules[2].role, ModuleRole::head);
  EXPECT_EQ(chunk.modules[2].parameters, std::vector<std::size_t>({14, 15, 16}));
  EXPECT_EQ(chunk.tied_copy, -1);
}

TEST(HeldChunks, TensorRanksHoldTheirShareOfWhatIsSplit) {
  Job job = tiny_job(1);
  job.layout.tp = 2;
  const HeldChunk chunk = only_chunk(job);
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(chunk.parameters[0].shape, Shape({8, 8}));  // wte: rows of the vocabulary
  EXPECT_EQ(chunk.parameters[0].whole, Shape({16, 8}));
  EXPECT_EQ(chunk.parameters[0].split, TensorSplit::column);
  EXPECT_EQ(chunk.parameters[1].shape, Shape({4, 8}));    // wpe is whole
  EXPECT_EQ(chunk.parameters[4].shape, Shape({12, 8}));   // qkv
  EXPECT_EQ(chunk.parameters[5].shape, Shape({12}));      // its bias
  EXPECT_EQ(chunk.parameters[6].shape, Shape({8, 4}));    // proj
  EXPECT_EQ(chunk.parameters[7].shape, Shape({8}));       // its bias is whole
  EXPECT_EQ(chunk.parameters[10].shape, Shape({16, 8}));  // fc1
  EXPECT_EQ(chunk.parameters[12].shape, Shape({8, 16}));  // fc2
  EXPECT_EQ(chunk.parameters[12].count, 128);
  EXPECT_EQ(chunk.parameters[16].shape, Shape({8, 8}));  // head
}

TEST(HeldChunks, FirstStagesTakeTheLayersThatRemain) {
  Job job = tiny_job(5);
  job.layout.pp = 3;
  std::vector<std::int64_t> layers;
  for (std::int64_t stage = 0; stage < 3; ++stage) {
    for (const HeldModule& module : only_chunk(job, stage).modules) {
      if (module.role == ModuleRole::block) {
        layers.push_back(10 * stage + module.layer);
      }
    }
  }
  EXPECT_EQ(layers, std::vector<std::int64_t>({0, 1, 12, 13, 24}));
}

TEST(HeldChunks, InterleavedStagesHoldEveryPpthPart) {
  Job job = tiny_job(4);
  job.layout.pp = 2;
  job.layout.virtual_stages = 2;
  job.train.micro_batches = 2;
  const std::vector<HeldChunk> first = held_chunks(validated(job).value(), 0);
  const std::vector<HeldChunk> last = held_chunks(validated(job).value(), 1);
  ASSERT_EQ(first.size(), 2U);
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(first[0].modules[0].role, ModuleRole::embedding);
  EXPECT_EQ(first[0].modules[1].layer, 0);
  EXPECT_EQ(first[1].modules[0].layer, 2);
  EXPECT_EQ(last[0].modules[0].layer, 1);
  EXPECT_EQ(last[1].modules[0].layer, 3);
  EXPECT_EQ(last[1].modules[1].role, ModuleRole::head);
}

TEST(HeldChunks, TiedHeadOfOneStageUsesTheEmbeddingsTable) {
  Job job = tiny_job(1);
  job.model.tied_embeddings = true;
  const HeldChunk chunk = only_chunk(job);
  EXPECT_EQ(chunk.parameters.size(), 16U);
  EXPECT_EQ(chunk.modules[2].parameters, std::vector<std::size_t>({14, 15, 0}));
  EXPECT_EQ(chunk.tied_copy, -1);
}

TEST(HeldChunks, TiedHeadOfAnotherStageHasItsOwnTable) {
  Job job = tiny_job(2);
  job.model.tied_embeddings = true;
  job.layout.pp = 2;
  const HeldChunk first = only_chunk(job, 0);
  const HeldChunk last = only_chunk(job, 1);
  EXPECT_EQ(first.tied_copy, 0);
  EXPECT_EQ(last.tied_copy, 14);
  EXPECT_EQ(last.parameters.at(14).name, "wte.weight");
  EXPECT_EQ(last.modules[1].parameters, std::vector<std::size_t>({12, 13, 14}));
}

TEST(FlatUnits, BucketsCloseOnReachingTheirSizeInReverseOrder) {
  Job job = tiny_job(1);
  job.layout.dp = 3;
  // Reversed: head 128, norm 8 8, fc2 8 256 -> 408; fc1 32 256, ln2 8 8, proj 8 64, qkv 24 -> 400; qkv 192,
  // ln1 8 8, wpe 32, wte 128 -> 368
  EXPECT_EQ(units_in(job, only_chunk(job)),
            std::vector<UnitShape>({{"bucket", {16, 15, 14, 13, 12}, 408, 408},
                                    {"bucket", {11, 10, 9, 8, 7, 6, 5}, 400, 402},
                                    {"bucket", {4, 3, 2, 1, 0}, 368, 369}}));
}

TEST(FlatUnits, BucketsCountBytesOfTheModelType) {
  Job job = tiny_job(1);
  job.train.dtype = DType::bf16;
  EXPECT_EQ(units_in(job, only_chunk(job)).size(), 2U);  // 800 elements: 816, then 360
  trainer::options(job).bucket = Bytes{1};
  EXPECT_EQ(units_in(job, only_chunk(job)).size(), 17U);  // one element at least: every parameter its own
}

TEST(FlatUnits, TiedTableInterruptsABucket) {
  Job job = tiny_job(2);
  job.model.tied_embeddings = true;
  job.layout.pp = 2;
  trainer::options(job).bucket = Bytes{1 << 20};
  const HeldChunk last = only_chunk(job, 1);
  EXPECT_EQ(units_in(job, last),
            std::vector<UnitShape>({{"wte", {14}, 128, 128, false, true},
                                    {"bucket", {13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, 888, 888}}));
  job.layout.pp = 1;
  job.model.layers = 1;
  const std::vector<UnitShape> whole = units_in(job, only_chunk(job));
  ASSERT_EQ(whole.size(), 2U);
  EXPECT_EQ(whole[1], UnitShape({"wte", {0}, 128, 128}));
}

TEST(FlatUnits, Stage3KeepsSmallParametersTogether) {
  Job job = tiny_job(1);
  job.train.zero_stage = 3;
  job.layout.dp = 5;
  // Above 100 elements: wte 128; qkv 192, fc1 256, fc2 256 = 704; head 128. The others: 1176 - 960 = 216.
  EXPECT_EQ(
      units_in(job, only_chunk(job)),
      std::vector<UnitShape>({{"embedding", {0}, 128, 130},
                              {"layers", {4, 10, 12}, 704, 705},
                              {"head", {16}, 128, 130},
                              {"persistent", {1, 2, 3, 5, 6, 7, 8, 9, 11, 13, 14, 15}, 216, 220, true}}));
}

TEST(FlatUnits, ParametersAtTheThresholdPersist) {
  Job job = tiny_job(1);
  job.train.zero_stage = 3;
  job.train.persistence_threshold = 256;
  EXPECT_EQ(units_in(job, only_chunk(job)).size(), 1U);
  job.train.persistence_threshold = 255;
  EXPECT_EQ(units_in(job, only_chunk(job)).size(), 2U);
  job.train.persistence_threshold = 0;
  EXPECT_EQ(units_in(job, only_chunk(job)).size(), 3U);  // nothing persists
}

TEST(FlatUnits, Stage3GivesATiedTableAUnitHoweverSmall) {
  Job job = tiny_job(1);
  job.train.zero_stage = 3;
  job.model.tied_embeddings = true;
  job.train.persistence_threshold = 1000;
  const HeldChunk chunk = only_chunk(job);
  const std::vector<UnitShape> units = units_in(job, chunk);
  ASSERT_EQ(units.size(), 2U);
  EXPECT_EQ(units[0], UnitShape({"wte", {0}, 128, 128}));
  EXPECT_EQ(units[1].tag, "persistent");
  EXPECT_EQ(units[1].count, 920);
}

TEST(UnitsOf, LeavesPersistentUnitsOut) {
  Job job = tiny_job(1);
  job.train.zero_stage = 3;
  job.model.tied_embeddings = true;
  const HeldChunk chunk = only_chunk(job);
  const std::vector<FlatUnit> units = flat_units(validated(job).value(), chunk);
  ASSERT_EQ(units.size(), 3U);  // wte, layers, persistent
  EXPECT_EQ(units_of(chunk.modules[0], units), std::vector<std::size_t>({0}));
  EXPECT_EQ(units_of(chunk.modules[1], units), std::vector<std::size_t>({1}));
  EXPECT_EQ(units_of(chunk.modules[2], units), std::vector<std::size_t>({0}));
}

TEST(UnitsOf, FindsEveryBucketAModuleTouches) {
  const Job job = tiny_job(1);
  const HeldChunk chunk = only_chunk(job);
  const std::vector<FlatUnit> units = flat_units(validated(job).value(), chunk);
  EXPECT_EQ(units_of(chunk.modules[1], units), std::vector<std::size_t>({0, 1, 2}));
}

TEST(QuantizedBytes, CountAScalePerBlockOf256) {
  EXPECT_EQ(int8_bytes(256), 260);
  EXPECT_EQ(int8_bytes(257), 265);
  EXPECT_EQ(int4_bytes(256), 132);
  EXPECT_EQ(int4_bytes(257), 137);
  EXPECT_EQ(int4_bytes(0), 0);
}

}  // namespace
}  // namespace commlens
