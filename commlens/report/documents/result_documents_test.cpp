#include "commlens/report/documents/result_documents.hpp"

#include <string>

#include <gtest/gtest.h>

#include "commlens/report/documents/test_documents.hpp"

namespace commlens {
namespace {

using test_support::k_found_json;
using test_support::k_scaling_json;
using test_support::k_simulated_json;
using test_support::replaced;

std::string refusal_of_document(const std::string& text) {
  ResultDocuments documents;
  const Result<void> read = read_result_document("r.json", text, documents);
  return read ? "" : read.error().message;
}

TEST(ResultDocuments, AreKnownByTheirSchema) {
  EXPECT_TRUE(is_result_document("\n{ \"schema\" : \"commlens.search/1\", \"rows\": []"));
  EXPECT_TRUE(is_result_document("{\"rows\":[],\"schema\":\"commlens.search_scaling/1\"}"));
  EXPECT_TRUE(is_result_document("{\"schema\":\"commlens.simulate/9\"}"));
  EXPECT_FALSE(is_result_document("{\"schema\":\"commlens.summary/1\"}"));
  EXPECT_FALSE(is_result_document("schema: \"commlens.search/1\""));
  EXPECT_FALSE(is_result_document("{\"schema\":"));
  EXPECT_FALSE(is_result_document(""));
}

TEST(ResultDocuments, HaveWhatSearchHasFound) {
  ResultDocuments documents;
  ASSERT_TRUE(read_result_document("found.json", k_found_json, documents));
  ASSERT_TRUE(documents.layouts);
  const FoundLayouts& found = *documents.layouts;
  EXPECT_EQ(found.on.name, "found.json");
  EXPECT_EQ(found.on.machine, "small");
  EXPECT_EQ(found.on.ranks, 8);
  EXPECT_EQ(found.evaluated, 90);
  ASSERT_EQ(found.fastest.size(), 2);
  EXPECT_EQ(found.fastest[0].text, "tp 1, pp 1, dp 8");
  EXPECT_EQ(found.fastest[0].seconds.value, 2);
  EXPECT_EQ(found.fastest[0].seconds.high, 2.5);
  EXPECT_EQ(found.fastest[0].memory.low, 800);
  EXPECT_EQ(found.fastest[0].parts[2], 0.25);
  ASSERT_TRUE(found.fastest[0].simulated);
  EXPECT_EQ(found.fastest[0].simulated->value, 2.25);
  EXPECT_EQ(found.fastest[0].simulated->low, 2);
  EXPECT_EQ(found.fastest[0].simulated_by, "megatron 0.19; kernels: fitted");
  EXPECT_TRUE(found.fastest[0].is_equal);
  EXPECT_FALSE(found.fastest[1].is_equal);
  EXPECT_EQ(found.fastest[1].reason, "no plan");
  ASSERT_EQ(found.changes.size(), 1);
  EXPECT_EQ(found.changes[0].slower, -0.5);
  EXPECT_FALSE(found.changes[0].fits);
  ASSERT_TRUE(found.with_twice);
  EXPECT_EQ(found.with_twice->seconds.value, 1);
}

TEST(ResultDocuments, HaveTheScalingAndTheSimulation) {
  ResultDocuments documents;
  ASSERT_TRUE(read_result_document("scaling.json", k_scaling_json, documents));
  ASSERT_TRUE(read_result_document("simulated.json", k_simulated_json, documents));
  ASSERT_EQ(documents.scaling->rows.size(), 2);
  EXPECT_EQ(documents.scaling->rows[0].reason, "memory: at least 9 GiB");
  EXPECT_FALSE(documents.scaling->rows[0].layout);
  EXPECT_EQ(documents.scaling->rows[1].tokens_per_s, 4096);
  EXPECT_EQ(documents.simulated->seconds.value, 0.5);
  EXPECT_EQ(documents.simulated->contention, "flows");
  EXPECT_EQ(documents.simulated->assumptions.size(), 2);
  EXPECT_EQ(documents.simulated->unverified, std::vector<std::string>{"a layer"});
  ASSERT_EQ(documents.simulated->calls.size(), 1);
  EXPECT_EQ(documents.simulated->calls[0].exposed.high, 0.2);
}

TEST(ResultDocuments, NameThePlaceOfWhatIsWrong) {
  const std::string found = k_found_json;
  EXPECT_EQ(refusal_of_document(replaced(found, R"("time_s": 2,)", R"("time_s": "2",)")),
            "r.json: rows[0].time_s must be a number from 0 to 1e+18");
  EXPECT_EQ(refusal_of_document(replaced(found, R"("time_s": 2,)", R"("time_s": -2,)")),
            "r.json: rows[0].time_s must be a number from 0 to 1e+18");
  EXPECT_EQ(refusal_of_document(replaced(found, R"("time_s": 2,)", "")), "r.json: rows[0].time_s is missing");
  EXPECT_EQ(refusal_of_document(replaced(found, R"("rank_count": 8)", R"("rank_count": 8.5)")),
            "r.json: rank_count must be a whole number");
  EXPECT_EQ(refusal_of_document(replaced(found, R"("fits": false)", R"("fits": 0)")),
            "r.json: changes[0].fits must be true or false");
  EXPECT_EQ(refusal_of_document(replaced(found, R"("model": "toy")", R"("model": ["toy"])")),
            "r.json: model must be a text of at most 10000 bytes");
  EXPECT_EQ(
      refusal_of_document(replaced(found, "search/1", "search/2")),
      "r.json: schema is 'commlens.search/2', which this version does not read; make the file again with it");
  EXPECT_EQ(refusal_of_document(R"({"schema": "commlens.search/1")"),
            "r.json: not valid JSON; was the file cut off?");
  EXPECT_EQ(refusal_of_document(R"({"schema": "commlens.simulate/1", "calls": 1})"),
            "r.json: model is missing");
  EXPECT_EQ(refusal_of_document(std::string(100'000, '[')), "r.json: nested too deep for a trace");
}

TEST(ResultDocuments, AreOneOfAKind) {
  ResultDocuments documents;
  ASSERT_TRUE(read_result_document("a.json", k_found_json, documents));
  const Result<void> second = read_result_document("b.json", k_found_json, documents);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "b.json: is the second of its kind; a report takes one");
}

}  // namespace
}  // namespace commlens
