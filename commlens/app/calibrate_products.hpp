#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "commlens/app/events.hpp"
#include "commlens/app/format.hpp"
#include "commlens/base/result.hpp"
#include "commlens/frameworks/overrides.hpp"
#include "commlens/machine/calibrate/product_fit.hpp"

namespace commlens {

/// Times of matrix products, or of trainings, and the machine that they were measured on.
struct CalibrateProductsRequest {
  std::vector<std::string> files;     // tables of products (docs/machines.md), or traces of trainings
  std::vector<std::string> held_out;  // tables that are predicted and not fitted
  std::string machine;                // to start from
  std::int64_t processors = 0;        // multiprocessors; 0: those of the machine or of known devices
  std::string source;                 // of the numbers, for the machine file; empty: the files' names
  std::vector<std::string>
      config;             // of a training whose trace has no shapes of products, as predict takes it
  std::string framework;  // of it
  Events events;
};

/// The calibrated machine, and how far its products are from the measured ones.
struct CalibratedProducts {
  Machine machine;
  std::vector<ProductError> errors;
  std::vector<std::string> lines;  // what was fitted, for people
};

/// Whether a file is a table of products, which calibrate_products takes.
bool names_product_table(const std::string& file);

/// The machine to start from. Fails where none is named.
Result<Machine> machine_of_products(const CalibrateProductsRequest& request);

/// calibrated_products() with the source and the multiprocessors of a request; its notes are warnings.
Result<CalibratedProducts> fitted_products(const CalibrateProductsRequest& request, ProductFitInput input);

/// Reads the tables and fits the machine's products (calibrated_products).
Result<CalibratedProducts> calibrate_products(const CalibrateProductsRequest& request);

/// The same from traces of trainings: of torch.profiler with shapes, their products; of any trace with times
/// of iterations, one efficiency with which the simulated job takes as long (it needs the configuration).
/// Warns of what cannot be fitted; fails where nothing can.
Result<CalibratedProducts> calibrate_from_training(const CalibrateProductsRequest& request);

/// Residuals by element type and form: a table; JSON as schema commlens.calibrate/1; CSV.
std::string rendered(const CalibratedProducts& result, Format format, const TextStyle& style = {});

}  // namespace commlens
