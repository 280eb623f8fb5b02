#include "commlens/simulate/timeline/job_rates.hpp"

#include <gtest/gtest.h>

#include "commlens/machine/machines.hpp"

namespace commlens {
namespace {

Job product_job() {
  Job job;
  job.model = {.layers = 2,
               .hidden = 1024,
               .heads = 8,
               .kv_heads = 8,
               .head_dim = 128,
               .ffn_hidden = 4096,
               .sequence = 2048,
               .vocab = 1024};
  job.train.micro_batch = 2;
  job.train.dtype = DType::bf16;
  job.layout.dp = 8;
  job.layout.ranks = 8;
  return job;
}

Machine machine_of(const char* name) { return *find_machine(name); }

bool has_text(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(JobRates, OfAMeasuredShapeAreItsTimeAndOthersTheForm) {
  JobRates rates;
  rates.products.peak = 100e12;
  rates.products.gemm_efficiency = .5;
  rates.products.processors = 100;
  rates.products.product_overhead = 10e-6;
  rates.measured_products[{1280, 2560, 1000}] = 200e-6;
  PlanWork work;
  work.kernels = {Gemm{1280, 2560, 1000, 3}};
  EXPECT_DOUBLE_EQ(work_seconds(rates, work), 600e-6);
  // One wave: 2 x 1,280 x 2,560 x 2,000 over 50e12, and 10 us, of each of two.
  work.kernels = {Gemm{1280, 2560, 2000, 2}};
  EXPECT_DOUBLE_EQ(work_seconds(rates, work), 2 * (2 * 1280.0 * 2560 * 2000 / 50e12 + 10e-6));
}

TEST(JobRates, TakeTheMachinesProductsBeforeThoseOfRuns) {
  Machine machine = machine_of("dgx_h100");
  const JobRates runs = job_rates(product_job(), DType::bf16, machine, built_in_calibration());
  EXPECT_FALSE(has_text(runs.provenance, "gemm block")) << runs.provenance;
  EXPECT_EQ(runs.products.gemm_efficiency, runs.rates.gemm_efficiency);
  ProductTimes products;
  products.dtype = DType::bf16;
  products.form = ProductForm{{.4, "share", "my sweep", 'M'},
                              {7, "us", "my sweep", 'M'},
                              {50, "elements", "my sweep", 'M'},
                              {.2, "share", "my sweep", 'M'},
                              {132, "multiprocessors", "data sheet", 'B'}};
  machine.processor.products = {products};
  const JobRates own = job_rates(product_job(), DType::bf16, machine, built_in_calibration());
  EXPECT_EQ(own.products.gemm_efficiency, .4);
  EXPECT_DOUBLE_EQ(own.products.product_overhead, 7e-6);
  EXPECT_EQ(own.products.half_inner, 50);
  EXPECT_EQ(own.products.wave_weight, .2);
  EXPECT_EQ(own.rates.gemm_efficiency, runs.rates.gemm_efficiency);
  EXPECT_TRUE(has_text(own.provenance, "; products by the machine's gemm block (my sweep)"))
      << own.provenance;
  EXPECT_TRUE(own.provenance.starts_with("all but products " + runs.provenance)) << own.provenance;
  // fc2 of 4,096 tokens.
  machine.processor.products[0].shapes = {{4096, 1024, 4096, 99}, {1, 1, 1, 5}};
  machine.processor.products[0].shapes_source = "my shapes";
  const JobRates exact = job_rates(product_job(), DType::bf16, machine, built_in_calibration());
  EXPECT_TRUE(has_text(exact.provenance,
                       "shapes of products measured (my shapes); other products by the "
                       "machine's gemm block (my sweep)"))
      << exact.provenance;
  PlanWork work;
  work.kernels = {Gemm{4096, 1024, 4096}};
  EXPECT_DOUBLE_EQ(work_seconds(exact, work), 99e-6 + exact.kernel_launch);
}

TEST(JobRates, TakeThePeakOfTheMachineFileAndSaySo) {
  Machine machine = machine_of("dgx_h100");
  for (auto& [dtype, peak] : machine.processor.peaks) {
    peak.value = 756;
  }
  const JobRates rates = job_rates(product_job(), DType::bf16, machine, built_in_calibration());
  EXPECT_EQ(rates.rates.peak, 756e12);
  EXPECT_TRUE(
      has_text(rates.provenance, "peak of 756 TFLOP/s by the machine file, 989 where runs were fitted"))
      << rates.provenance;
  const JobRates aurora = job_rates(product_job(), DType::bf16, machine_of("aurora"), built_in_calibration());
  EXPECT_EQ(aurora.rates.peak, 209e12);
  EXPECT_TRUE(
      has_text(aurora.provenance, "peak of 209 TFLOP/s, which PVC tile sustains of the machine file's 416"))
      << aurora.provenance;
}

TEST(JobRates, OfFp8HaveTwiceThePeakAndTheirCastsButForTheHead) {
  const JobRates rates = job_rates(product_job(), DType::fp8, machine_of("dgx_h100"), built_in_calibration());
  EXPECT_EQ(rates.precision, MatrixPrecision::fp8);
  EXPECT_EQ(rates.peak_of_dtype, 1978e12);
  EXPECT_TRUE(rates.head_products.contains({4096, 1024, 1024})) << "2 x 2,048 tokens, vocabulary, width";
  JobRates plain;
  plain.precision = MatrixPrecision::fp8;
  plain.products.peak = 100e12;
  plain.products.fp8_efficiency = .5;
  plain.products.gemm_efficiency = .5;
  plain.products.processors = 1;
  plain.rates.memory_bandwidth = 1e12;
  plain.head_products = {{128, 256, 8192}};
  PlanWork work;
  work.kernels = {Gemm{128, 256, 4096, 1}};
  // 2 m n k over twice the peak, half of which is reached; 2/3 byte of each of m (k + n) elements.
  EXPECT_DOUBLE_EQ(work_seconds(plain, work),
                   2 * 128.0 * 256 * 4096 / 100e12 + 2.0 / 3 * 128 * (4096 + 256) / 1e12);
  work.kernels = {Gemm{128, 256, 8192, 1}};
  EXPECT_DOUBLE_EQ(work_seconds(plain, work), 2 * 128.0 * 256 * 8192 / 50e12);
}

TEST(JobRates, OfTheOptimizerAreNotThoseOfOtherMemoryBoundWork) {
  JobRates rates;
  rates.rates.memory_bandwidth = 2e12;
  rates.rates.memory_factor = 3;
  rates.update_factor = 1.5;
  PlanWork work;
  work.kernels = {MemoryKernel{Bytes{1'000'000'000}}};
  EXPECT_DOUBLE_EQ(work_seconds(rates, work), 1.5e-3);
  work.phase = Phase::optimizer;
  EXPECT_DOUBLE_EQ(work_seconds(rates, work), 0.75e-3);
}

TEST(JobRates, OfPytorchAreItsOwnWhereTheyWereMeasured) {
  Job job = product_job();
  job.framework = "torch-ddp";
  job.train.attention = Attention::flash;
  const auto provenance = [&](const char* machine) {
    return job_rates(job, DType::bf16, machine_of(machine), built_in_calibration()).provenance;
  };
  EXPECT_EQ(provenance("hgx_h200"), "borrowed from H200, torch, which has not seen more than one device");
  job.layout = {};
  EXPECT_EQ(provenance("hgx_h200"), "calibrated on 23 runs of H200, torch");
  EXPECT_EQ(provenance("dgx_h100"), "calibrated on 23 runs of H100, torch");
  EXPECT_TRUE(has_text(provenance("vista_gh200"), "borrowed from H")) << provenance("vista_gh200");
  EXPECT_TRUE(has_text(provenance("dgx_a100"), ", fsdp, which has not seen this trainer"))
      << provenance("dgx_a100");
  job.framework = "torchtitan";
  EXPECT_EQ(provenance("dgx_h100"), "borrowed from H100, fsdp, which has not seen this trainer");
}

}  // namespace
}  // namespace commlens
