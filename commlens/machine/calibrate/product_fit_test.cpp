#include "commlens/machine/calibrate/product_fit.hpp"

#include <gtest/gtest.h>

#include "commlens/machine/machines.hpp"

namespace commlens {
namespace {

/// 100 TFLOP/s in bf16, 100 multiprocessors.
Machine fitted_machine() {
  Machine machine;
  machine.name = "small";
  machine.processor.peaks = {{DType::bf16, {100, "TFLOP/s", "data sheet", 'B'}}};
  return machine;
}

MeasuredProduct product(std::int64_t m, std::int64_t n, std::int64_t k, double us) {
  return {DType::bf16, {m, n, k, us}, "p.csv:2"};
}

/// Efficiency 0.5, 10 us, k0 100, wave weight 0.5: 10 x 10 tiles fill one wave, 20 x 10 two, 5 x 10 half of
/// one.
std::vector<MeasuredProduct> exact_products() {
  return {product(1280, 2560, 1000, 2 * 65.536 * 1.1 + 10),
          product(1280, 2560, 4000, 2 * 262.144 * 1.025 + 10), product(2560, 2560, 100, 2 * 13.1072 * 2 + 10),
          product(640, 2560, 1000, 2 * 32.768 * 1.1 * 1.5 + 10)};
}

ProductFitInput input_of(std::vector<MeasuredProduct> products) {
  return {fitted_machine(), std::move(products), {}, "p.csv", {100, "multiprocessors", "data sheet", 'B'}};
}

std::string refusal(std::vector<MeasuredProduct> products) {
  const Result<ProductFitOutput> output = calibrated_products(input_of(std::move(products)));
  return output ? "" : output.error().message;
}

TEST(ProductFit, FindsTheCoefficientsOfTimesThatFollowTheForm) {
  const Result<ProductFitOutput> output = calibrated_products(input_of(exact_products()));
  ASSERT_TRUE(output) << output.error().message;
  const ProductTimes& products = output->machine.processor.products.front();
  EXPECT_NEAR(products.form->efficiency.value, .5, 1e-6);
  EXPECT_NEAR(products.form->each.value, 10, 1e-4);
  EXPECT_NEAR(products.form->half_inner.value, 100, 1e-3);
  EXPECT_EQ(products.form->wave_weight.value, .5);
  EXPECT_EQ(products.form->processors.source, "data sheet");
  EXPECT_EQ(products.form->efficiency.source, "p.csv, fitted to 4 products");
  EXPECT_EQ(products.shapes.size(), 4U);
  ASSERT_EQ(output->errors.size(), 3U);
  EXPECT_EQ(output->errors[0].form, "all four");
  EXPECT_LT(output->errors[0].worst, 1e-6);
  EXPECT_EQ(output->errors[1].form, "one efficiency");
  EXPECT_GT(output->errors[1].mean, .1);
}

TEST(ProductFit, ComparesWithOneEfficiencyOfLeastRelativeSquares) {
  // Of times 1 / e of the shortest with e 0.5, 0.5, 0.5 and 0.25: a = sum(e) / sum(e^2), an efficiency of
  // 0.8125 / 1.75.
  const std::vector<MeasuredProduct> products = {
      product(1280, 2560, 1000, 2 * 65.536), product(2560, 2560, 2000, 2 * 262.144),
      product(1280, 2560, 4000, 2 * 262.144), product(1280, 2560, 500, 4 * 32.768)};
  const Result<ProductFitOutput> output = calibrated_products(input_of(products));
  ASSERT_TRUE(output) << output.error().message;
  const double share = 0.8125 / 1.75;
  EXPECT_NEAR(output->errors[1].worst, 1 - .25 / share, 1e-9);
  EXPECT_NEAR(output->errors[1].median, .5 / share - 1, 1e-9);
}

TEST(ProductFit, TakesTheMedianOfReplicates) {
  std::vector<MeasuredProduct> products = exact_products();
  products.push_back(product(1280, 2560, 1000, 200));
  products.push_back(product(1280, 2560, 1000, 160));
  const Result<ProductFitOutput> output = calibrated_products(input_of(products));
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_EQ(output->machine.processor.products.front().shapes.back().k, 100);
  EXPECT_EQ(output->machine.processor.products.front().shapes[1].us, 160);
}

TEST(ProductFit, RefusesWhatTheTimesCannotSupport) {
  std::vector<MeasuredProduct> few = exact_products();
  few.pop_back();
  EXPECT_EQ(refusal(few), "p.csv:2: 3 shapes of products in bf16; a fit of 4 coefficients needs as many");
  EXPECT_EQ(refusal({product(1280, 2560, 1000, 200), product(640, 2560, 1000, 200),
                     product(320, 2560, 1000, 200), product(160, 2560, 1000, 200)}),
            "p.csv:2: all products in bf16 have k = 1000; a fit needs two inner dimensions at least");
  EXPECT_EQ(
      refusal({product(1280, 2560, 1000, 6.5536)}),
      "p.csv:2: 1000 TFLOP/s, 10 times the peak of small (100 TFLOP/s): times are in another unit, or shapes "
      "of another product");
  std::vector<MeasuredProduct> other = exact_products();
  other.front().dtype = DType::fp32;
  EXPECT_EQ(refusal(other), "p.csv:2: small has no peak of fp32, which efficiencies are shares of");
  ProductFitInput unknown = input_of(exact_products());
  unknown.processors.value = 0;
  EXPECT_EQ(calibrated_products(unknown).error().message,
            "p.csv:2: --multiprocessors is needed: how many the device has is not known");
  EXPECT_EQ(refusal({}), "no measured product to calibrate with");
}

TEST(ProductFit, KeepsShapesWithoutAFitWhereAsked) {
  std::vector<MeasuredProduct> few = exact_products();
  few.pop_back();
  few.push_back(product(1, 1, 1, 5));
  few.back().dtype = DType::fp32;
  ProductFitInput input = input_of(few);
  input.keeps_unfit = true;
  const Result<ProductFitOutput> output = calibrated_products(input);
  ASSERT_TRUE(output) << output.error().message;
  ASSERT_EQ(output->machine.processor.products.size(), 1U);
  EXPECT_EQ(output->machine.processor.products.front().shapes.size(), 3U);
  EXPECT_FALSE(output->machine.processor.products.front().form);
  ASSERT_EQ(output->notes.size(), 2U);
}

TEST(ProductTable, IsReadFromCsvAndFromSharesOfThePeak) {
  const Result<ProductFile> csv =
      parse_product_table("p.csv", "m,n,k,dtype,microseconds\n4096,8192,1024,bf16,250.5\n1,2,3,half,1e-1\n");
  ASSERT_TRUE(csv) << csv.error().message;
  ASSERT_EQ(csv->products.size(), 2U);
  EXPECT_EQ(csv->products[0].time.n, 8192);
  EXPECT_EQ(csv->products[0].time.us, 250.5);
  EXPECT_EQ(csv->products[1].dtype, DType::fp16);
  EXPECT_EQ(csv->products[1].where, "p.csv:3");
  // 2 x 1,000 x 2,000 x 500 at half of 100 TFLOP/s: 40 us.
  const std::string shares =
      R"({"accelerator": {"op": {"matmul": {"tflops": 100, "accurate_efficient_factor": {
      "b=1, m=1000, k=500, n=2000, layout=TN, accumulate=False, out_dtype=bf16": 0.5,
      "b=2, m=1000, k=500, n=2000, layout=TN, accumulate=False, out_dtype=bf16": 0.5}}}}})";
  const Result<ProductFile> json = parse_product_table("s.json", shares);
  ASSERT_TRUE(json) << json.error().message;
  ASSERT_EQ(json->products.size(), 1U);
  EXPECT_EQ(json->products[0].time.n, 2000);
  EXPECT_EQ(json->products[0].time.k, 500);
  EXPECT_DOUBLE_EQ(json->products[0].time.us, 40);
  EXPECT_EQ(json->notes.size(), 1U);
}

std::string table_refusal(const std::string& content) {
  const Result<ProductFile> table = parse_product_table("p.csv", content);
  return table ? "" : table.error().message;
}

TEST(ProductTable, RefusesRowsThatCannotBe) {
  const std::string head = "m,n,k,dtype,microseconds\n";
  EXPECT_EQ(table_refusal(head + "4096,8192,1024,bf16,nan\n"),
            "p.csv:2: microseconds is 'nan'; it must be a number above 0");
  EXPECT_EQ(table_refusal(head + "4096,8192,1024,bf16,-3\n"),
            "p.csv:2: microseconds is '-3'; it must be a number above 0");
  EXPECT_EQ(table_refusal(head + "4096,8192,1024,bf16\n"),
            "p.csv:2: microseconds is ''; it must be a number above 0");
  EXPECT_EQ(table_refusal(head + "4096,0,1024,bf16,3\n"),
            "p.csv:2: n is '0'; it must be a whole number from 1 to 1e+09");
  EXPECT_EQ(table_refusal(head + "4096,2,1024,bf17,3\n"), "p.csv:2: dtype 'bf17' is not known");
  EXPECT_EQ(table_refusal(head), "p.csv: no row with a time of a matrix product");
  EXPECT_EQ(table_refusal(R"({"accurate_efficient_factor": 1})"),
            "p.csv: no row with a time of a matrix product");
}

}  // namespace
}  // namespace commlens
