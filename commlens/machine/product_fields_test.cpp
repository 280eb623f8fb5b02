#include "commlens/machine/product_fields.hpp"

#include <gtest/gtest.h>

#include "commlens/base/text.hpp"
#include "commlens/machine/machine_reader.hpp"

namespace commlens {
namespace {

constexpr const char* k_product_machine = R"({
 "schema": "commlens.machine/1",
 "name": "small",
 "title": "One GPU",
 "ranks_per_node": {"value":1,"unit":"ranks","source":"seen","confidence":"A"},
 "cpu": "intel",
 "processor": {
  "name": "GPU",
  "architecture": "hopper",
  "peaks": {
   "bf16": {"value":100,"unit":"TFLOP/s","source":"data sheet","confidence":"B"}
  },
  "gemm": {
   "bf16": {
    "efficiency": {"value":0.5,"unit":"share","source":"fitted","confidence":"M"},
    "per_gemm": {"value":10,"unit":"us","source":"fitted","confidence":"M"},
    "half_inner": {"value":100,"unit":"elements","source":"fitted","confidence":"M"},
    "wave_weight": {"value":0.46,"unit":"share","source":"fitted","confidence":"M"},
    "multiprocessors": {"value":100,"unit":"multiprocessors","source":"data sheet","confidence":"B"},
    "shapes": {"source":"measured here","confidence":"M","m_n_k_us":[[4096,4096,4096,2000],[4096,1024,4096,700.5],[4096,4096,1024,600]]}
   }
  }
 },
 "scale_up": {"kind":"none"},
 "scale_out": {"kind":"none"}
}
)";

std::string product_refusal(std::string_view from, std::string_view to) {
  const std::string file = replaced(k_product_machine, from, to);
  EXPECT_NE(file, k_product_machine) << from;
  const Result<Machine> machine = read_machine("m.json", file);
  return machine ? "" : machine.error().message;
}

TEST(ProductFields, AreReadAndWrittenAsTheyAre) {
  const Result<Machine> machine = read_machine("m.json", k_product_machine);
  ASSERT_TRUE(machine) << machine.error().message;
  const ProductTimes* const products = known_products(machine->processor, DType::bf16);
  ASSERT_NE(products, nullptr);
  EXPECT_EQ(products->form->each.value, 10);
  ASSERT_EQ(products->shapes.size(), 3U);
  EXPECT_EQ(products->shapes[1].n, 1024);
  EXPECT_EQ(products->shapes[1].us, 700.5);
  EXPECT_EQ(machine_json(*machine), k_product_machine);
  EXPECT_EQ(known_products(machine->processor, DType::fp16), products);  // as fast as bf16
  EXPECT_EQ(known_products(machine->processor, DType::fp32), nullptr);
}

TEST(ProductFields, AreRefusedWhereTheyCannotBe) {
  EXPECT_EQ(product_refusal(R"("value":0.5)", R"("value":1.5)"),
            "m.json:15: processor.gemm.bf16.efficiency: 1.5 share cannot be: 0.001 to 1 are possible");
  EXPECT_EQ(product_refusal(R"("value":10,"unit":"us")", R"("value":-1,"unit":"us")"),
            "m.json:16: processor.gemm.bf16.per_gemm: -1 us cannot be: 0 to 1000 are possible");
  EXPECT_EQ(product_refusal(R"("unit":"elements","source":"fitted")", R"("unit":"elements")"),
            "m.json:17: processor.gemm.bf16.half_inner.source: is missing");
  EXPECT_EQ(product_refusal(R"("wave_weight")", R"("wave")"),
            "m.json:18: processor.gemm.bf16.wave: is not known");
  EXPECT_EQ(
      product_refusal(R"("value":100,"unit":"multi)", R"("value":1.5,"unit":"multi)"),
      "m.json:19: processor.gemm.bf16.multiprocessors: 1.5 multiprocessors cannot be: they are counted");
  EXPECT_EQ(product_refusal(R"("peaks": {
   "bf16")",
                            R"("peaks": {
   "fp16")"),
            "m.json:14: processor.gemm.bf16: needs processor.peaks.bf16, of which efficiencies are shares");
}

TEST(ProductFields, OfShapesAreRefusedWhereTheyCannotBe) {
  const std::string at = "m.json:20: processor.gemm.bf16.shapes.m_n_k_us: ";
  // 2 x 4,096 ^ 3 in 1 ms are 137.4 TFLOP/s.
  EXPECT_EQ(product_refusal("4096,2000]", "4096,1000]"),
            at + "1000 us are 1.4 times as fast as the peak: another unit?");
  EXPECT_EQ(product_refusal("4096,2000]", "4096,0]"), at + "0 us cannot be; they must be above 0");
  EXPECT_EQ(product_refusal("4096,2000]", "4096]"), at + "must be four numbers: m, n, k and microseconds");
  EXPECT_EQ(product_refusal("[4096,1024,4096,700.5", "[4096,4096,4096,2000"),
            at + "4096 x 4096 x 4096 is there twice");
  EXPECT_EQ(product_refusal("[4096,1024,4096,", "[4096,0,4096,"),
            at + "m, n and k must be from 1 to 1000000000");
  EXPECT_EQ(product_refusal(R"("source":"measured here",)", ""),
            "m.json:20: processor.gemm.bf16.shapes.source: is missing");
}

}  // namespace
}  // namespace commlens
