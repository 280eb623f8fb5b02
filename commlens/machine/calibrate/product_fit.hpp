#pragma once
#include <string>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/machine/calibrate/product_table.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// What to fit.
struct ProductFitInput {
  Machine machine;
  std::vector<MeasuredProduct> products;
  std::vector<MeasuredProduct> held_out;  // predicted and not fitted
  std::string source;                     // of the times, for the machine file
  Quantity processors;  // multiprocessors of the device; value 0: those of the machine's earlier fit
  /// Shapes that no fit is possible to are kept, and those of types without a peak left out, with a note;
  /// else both are refused.
  bool keeps_unfit = false;
};

/// How far a form of products is from measured ones.
struct ProductError {
  std::string rows;  // "fitted", "held out"
  DType dtype = DType::bf16;
  std::string form;  // "all four", "one efficiency", "efficiency and us"
  std::int64_t count = 0;
  double mean = 0;  // of |predicted/measured - 1|
  double median = 0;
  double p90 = 0;
  double worst = 0;
  std::string worst_at;  // "FILE:LINE"
};

/// A machine with the products that were measured on it, and what was fitted to them.
struct ProductFitOutput {
  Machine machine;
  std::vector<ProductError> errors;  // of the fit beside one efficiency and beside an efficiency and us
  std::vector<std::string> notes;
};

/// Fits efficiency, us of a product, half_inner and wave_weight to measured products of each element type, by
/// least squares on relative errors, and keeps the times (of replicates the median) beside them. Refused are
/// products faster than the peak (a unit error), types without a peak, fewer shapes than coefficients and
/// shapes of one inner dimension alone.
Result<ProductFitOutput> calibrated_products(const ProductFitInput& input);

}  // namespace commlens
