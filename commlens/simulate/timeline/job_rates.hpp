#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "commlens/machine/compute/kernel_times.hpp"
#include "commlens/machine/machine.hpp"
#include "commlens/model/job.hpp"
#include "commlens/plan/work.hpp"
#include "commlens/simulate/run_calibration.hpp"

namespace commlens {

/// What a job's kernels compute with on a machine, and how sure that is.
struct JobRates {
  ComputeRates rates;
  ComputeRates products;  // of matrix products: by the machine file's own numbers where it has them
  MatrixPrecision precision = MatrixPrecision::bf16;                // of products, but for those of the head
  std::set<std::array<std::int64_t, 3>> head_products;              // which stay in 16 bit, by m, n and k
  std::map<std::array<std::int64_t, 3>, double> measured_products;  // seconds of one, by m, n and k
  double peak_of_dtype = 0;            // FLOP/s of the model's element type, as the machine states it
  double slower = 1;                   // attention in that type, over that in 16 bit
  double kernel_launch = 0;            // seconds, of each kernel: its part of what a layer's launches take
  double kernel_floor = 0;             // seconds that a kernel takes at least, for the same reason
  double update_factor = 1;            // time of the optimizer, of what the bandwidth allows
  double accumulate = 0;               // seconds of adding the gradient of a parameter up over micro-batches
  std::vector<Gemm> weight_gradients;  // products that make gradients of parameters
  std::vector<Gemm> input_gradients;   // products that make gradients of inputs
  double tensor_shown = 1;             // of a tensor-parallel message that matrix products hide, what shows
  double held_share = 0;  // of the device's multiprocessors, that a collective holds while it is under way
  double spread = 0;      // of log(time): 90 % interval
  std::string provenance;
};

/// `dtype`: of its matrix products; in fp8 all but the head's are, as in closed forms of runs. The rates of
/// the family of runs nearest to the job's device and framework (docs/time-model.md#coefficients); of
/// products, times that the machine file has of their exact shape, then its form of products, win. What was
/// taken is in the provenance.
JobRates job_rates(const Job& job, DType dtype, const Machine& machine, const RunCalibration& calibration);

/// Seconds of the kernels of a work, one after the other, with their launches; with adding gradients up,
/// where there are several micro-batches.
double work_seconds(const JobRates& rates, const PlanWork& work);

}  // namespace commlens
