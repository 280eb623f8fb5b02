// The form of matrix products on tables that were measured on an H200 and an H100
// (tests/iterations/pytorch/products_*.csv; docs/results/gpu.md): half of the shapes predict the others.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "commlens/base/file.hpp"
#include "commlens/machine/calibrate/product_fit.hpp"
#include "commlens/machine/machines.hpp"

namespace commlens {
namespace {

using Products = std::vector<MeasuredProduct>;

Products measured_on(const std::string& gpu) {
  const char* const sources = std::getenv("COMMLENS_SOURCE_DIR");
  const std::filesystem::path file = std::filesystem::path(sources == nullptr ? "." : sources) /
                                     ("tests/iterations/pytorch/products_" + gpu + ".csv");
  const Result<ProductFile> table = read_text_file(file, 1 << 20).and_then([](const std::string& content) {
    return parse_product_table("products.csv", content);
  });
  EXPECT_TRUE(table) << table.error().message;
  Products products = table ? table->products : Products();
  std::erase_if(products, [](const MeasuredProduct& product) { return product.dtype != DType::bf16; });
  EXPECT_EQ(products.size(), 230U);
  return products;
}

/// Every other shape, from the first or the second on.
Products every_other(const Products& all, std::size_t first) {
  Products some;
  for (std::size_t index = first; index < all.size(); index += 2) {
    some.push_back(all[index]);
  }
  return some;
}

/// Errors on `held_out`: of the form, then of one efficiency.
std::pair<ProductError, ProductError> errors_on(const Products& fitted, const Products& held_out) {
  ProductFitInput input{*find_machine("hgx_h200"), fitted, held_out};
  input.source = "test";
  input.processors = {132, "multiprocessors", "PyTorch's device properties", 'M'};
  const Result<ProductFitOutput> output = calibrated_products(input);
  EXPECT_TRUE(output) << output.error().message;
  std::pair<ProductError, ProductError> errors;
  for (const ProductError& error : output ? output->errors : std::vector<ProductError>()) {
    if (error.rows == "held out" && error.form == "all four") {
      errors.first = error;
    } else if (error.rows == "held out" && error.form == "one efficiency") {
      errors.second = error;
    }
  }
  EXPECT_EQ(errors.first.count, static_cast<std::int64_t>(held_out.size()));
  EXPECT_EQ(errors.second.form, "one efficiency");
  return errors;
}

void expect_within(const std::pair<ProductError, ProductError>& errors, double mean, double p90) {
  EXPECT_LE(errors.first.mean, mean);
  EXPECT_LE(errors.first.p90, p90);
  EXPECT_LT(errors.first.mean, 0.5 * errors.second.mean);
}

TEST(GpuProducts, HalfOfTheShapesPredictTheOthers) {
  const Products h200 = measured_on("h200");
  expect_within(errors_on(every_other(h200, 0), every_other(h200, 1)), .04, .09);
  expect_within(errors_on(every_other(h200, 1), every_other(h200, 0)), .04, .09);
  const Products h100 = measured_on("h100");
  expect_within(errors_on(every_other(h100, 0), every_other(h100, 1)), .05, .11);
  expect_within(errors_on(every_other(h100, 1), every_other(h100, 0)), .05, .11);
}

TEST(GpuProducts, OfAnH200PredictThoseOfAnH100) {
  expect_within(errors_on(measured_on("h200"), measured_on("h100")), .06, .11);
}

}  // namespace
}  // namespace commlens
