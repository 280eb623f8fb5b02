// The order of the fastest layouts of a search is that of their simulated times, or else they are apart by no
// more than the error that is stated.
#include <string>

#include <gtest/gtest.h>

#include "commlens/app/search_layouts.hpp"

namespace commlens {
namespace {

struct SearchedModel {
  const char* model;
  const char* framework;  // empty: the usual one
  std::int64_t ranks;
  std::int64_t global_batch;
};

class OfSearchedModels : public testing::TestWithParam<SearchedModel> {};

TEST_P(OfSearchedModels, TheTopFiftyAreInTheOrderThatSimulationHas) {
  SearchRequest request;
  request.config = {GetParam().model};
  request.machine = "dgx_h100";
  request.framework = GetParam().framework;
  request.ranks = GetParam().ranks;
  request.global_batch = GetParam().global_batch;
  request.retime = 50;
  const Result<SearchResult> result = search_layouts(request);
  ASSERT_TRUE(result) << result.error().message;
  const OrderAgreement agreement = order_agreement(*result);
  EXPECT_EQ(agreement.layouts, 50);
  EXPECT_GT(agreement.pairs, 1000);
  // Intervals are of 90 %: a few pairs may be outside of them.
  EXPECT_TRUE(agreement.tau() >= 0.9 || agreement.same + agreement.within_error >= agreement.pairs * 95 / 100)
      << "tau " << agreement.tau() << ", " << agreement.within_error << " of "
      << agreement.pairs - agreement.same << " others within the error";
  EXPECT_GT(agreement.tau(), 0.25) << "an order of its own";
  for (const RetimedLayout& layout : result->retimed) {
    EXPECT_TRUE(layout.seconds || !layout.reason.empty());
    if (layout.seconds) {
      EXPECT_LT(layout.seconds->low, layout.seconds->value);
      EXPECT_GT(layout.seconds->high, layout.seconds->value);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Retimed, OfSearchedModels,
                         testing::Values(SearchedModel{"13B", "", 64, 512},
                                         SearchedModel{"llama3-8b", "", 64, 512},
                                         SearchedModel{"llama3-8b", "fsdp", 64, 512}));

}  // namespace
}  // namespace commlens
