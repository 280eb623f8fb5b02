#include "commlens/config/key_synonyms.hpp"

#include <array>

#include <gtest/gtest.h>

#include "commlens/config/map_reader.hpp"
#include "commlens/config/yaml_document.hpp"

namespace commlens {
namespace {

constexpr std::array<std::string_view, 4> k_keys_known = {"context_parallel_size", "num_layers", "seq_length",
                                                          "tensor_model_parallel_size"};

TEST(KeySynonyms, AreWhatAnotherToolCallsTheSetting) {
  EXPECT_EQ(same_setting("num_hidden_layers", k_keys_known), "num_layers");
  EXPECT_EQ(same_setting("tensor_parallel_degree", k_keys_known), "tensor_model_parallel_size");
  EXPECT_EQ(same_setting("hidden_size", k_keys_known), "");
  EXPECT_EQ(same_setting("num_layers", k_keys_known), "");
}

TEST(KeySynonyms, ComeBeforeWhatIsSpeltAlike) {
  EXPECT_EQ(meant_key("tensor_parallel_size", k_keys_known), "tensor_model_parallel_size");
  EXPECT_EQ(meant_key("seq_lenght", k_keys_known), "seq_length");
  EXPECT_EQ(meant_key("nothing_of_it", k_keys_known), "");
}

TEST(KeySynonyms, AreInTheWarningOfAnUnknownKeyAndTheErrorOfAMissingOne) {
  const ConfigNode map = parse_yaml("a.yml", "n_layer: 4\nseq_len: 8\n").value();
  std::vector<std::string> warnings;
  std::vector<std::string> unmodelled;
  MapReader reader(map, {warnings, unmodelled});
  std::int64_t sequence = 0;
  reader.read("seq_length", sequence);
  reader.accept("n_layer");
  ASSERT_TRUE(reader.finish());
  EXPECT_EQ(warnings, std::vector<std::string>{"a.yml:2: unknown key 'seq_len'; did you mean 'seq_length'?"});

  MapReader demanding(map, {warnings, unmodelled});
  std::int64_t layers = 0;
  demanding.require("num_layers", layers);
  EXPECT_EQ(demanding.finish().error().message,
            "a.yml:1: 'num_layers' is missing; is 'n_layer' (a.yml:1) meant?");
}

}  // namespace
}  // namespace commlens
