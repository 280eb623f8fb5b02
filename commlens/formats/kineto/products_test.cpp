#include "commlens/formats/kineto/products.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/formats/kineto/events.hpp"
#include "commlens/trace/test_support.hpp"

namespace commlens::formats::kineto {
namespace {

std::string op_line(std::string_view name, int external, std::string_view dims) {
  return fmt::format(R"({{"ph": "X", "cat": "cpu_op", "name": "{}", "ts": 1, "dur": 9, "args":
    {{"External id": {}, "Input Dims": {}, "Input type": ["c10::BFloat16", "c10::BFloat16"]}}}},)",
                     name, external, dims);
}

std::string kernel_line(int external, std::string_view us) {
  return fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 5, "dur": {}, "args": {{"External id": {}}}}},)",
      us, external);
}

TEST(KinetoProducts, AreTheKernelsOfTheirOps) {
  const test_support::ScratchDirectory directory;
  const auto file = directory.write(
      "t.json", "{\"schemaVersion\": 1, \"traceEvents\": [" + op_line("aten::mm", 7, "[[4, 8], [8, 3]]") +
                    op_line("aten::addmm", 8, "[[3], [5, 8], [8, 3], [], []]") +
                    op_line("aten::mm", 9, "[[4, 8], [8, 3]]") + op_line("aten::mm", 7, "[]") +
                    kernel_line(7, "2.5") + kernel_line(8, "1") + kernel_line(8, "0.25") +
                    kernel_line(4, "9") + "{\"ph\": \"i\"}]}");
  const Result<TracedProducts> read = read_products(file);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->products.size(), 2U);
  EXPECT_EQ(read->products[0].dtype, DType::bf16);
  EXPECT_EQ(read->products[0].m, 4);
  EXPECT_EQ(read->products[0].n, 3);
  EXPECT_EQ(read->products[0].k, 8);
  EXPECT_EQ(read->products[0].duration_ns, 2500);
  EXPECT_EQ(read->products[1].m, 5);
  EXPECT_EQ(read->products[1].duration_ns, 1250);  // both kernels
  EXPECT_EQ(read->without_kernel, 1);
  EXPECT_EQ(read->without_shape, 1);
}

TEST(KinetoProducts, HaveTheDimensionsOfTheirLists) {
  EXPECT_EQ(dimensions_of("[[4, 8], [], [3]]"), (std::vector<std::vector<std::int64_t>>{{4, 8}, {}, {3}}));
  EXPECT_TRUE(dimensions_of("").empty());
  EXPECT_TRUE(dimensions_of("[]").empty());
}

}  // namespace
}  // namespace commlens::formats::kineto
