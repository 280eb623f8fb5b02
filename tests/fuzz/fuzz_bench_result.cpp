// Results of bench, as --append and --check read them. What is accepted is compared with itself: ratios
// are 1.
#include "commlens/app/bench_reader.hpp"
#include "commlens/app/bench_regression.hpp"
#include "commlens/base/check.hpp"
#include "tests/fuzz/input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace commlens;
  const Result<BenchRun> run = parse_bench("input", as_text(bytes, size));
  if (!run) {
    COMMLENS_CHECK(!run.error().message.empty(), "an error says something");
    return 0;
  }
  for (const BenchLaunch& launch : run->launches) {
    for (const BenchLaunchRow& row : launch.rows) {
      COMMLENS_CHECK(row.stats.p50_s > 0 && row.stats.p50_s < 1e10, "a median is a time");
    }
  }
  if (const Result<BenchComparison> checks = check_bench(*run, *run)) {
    for (const BenchCheck& check : checks->rows) {
      COMMLENS_CHECK(check.ratio() == 1 && !check.is_slower, "a result is not slower than itself");
    }
  }
  return 0;
}
