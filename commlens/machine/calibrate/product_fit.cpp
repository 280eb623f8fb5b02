#include "commlens/machine/calibrate/product_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "commlens/machine/calibrate/least_squares.hpp"
#include "commlens/machine/compute/kernel_times.hpp"
#include "commlens/machine/product_fields.hpp"

namespace commlens {
namespace {

constexpr std::size_t k_form_coefficients = 4;
constexpr int k_wave_steps = 100;  // of wave_weight, from 0 to 1

using ProductShape = std::array<std::int64_t, 3>;
using Products = std::vector<const MeasuredProduct*>;

ProductShape shape_of(const ProductTime& time) { return {time.m, time.n, time.k}; }

/// What the coefficients of one element type are fitted under.
struct FormRates {
  double peak = 0;
  double processors = 1;
};

struct FormValues {
  double efficiency = 0;  // 0: the times do not grow with the operations
  double us = 0;
  double half_inner = 0;
  double wave_weight = 0;
};

double product_us(const FormRates& rates, const FormValues& values, const ProductTime& time) {
  ComputeRates all;
  all.peak = rates.peak;
  all.processors = rates.processors;
  all.gemm_efficiency = values.efficiency;
  all.half_inner = values.half_inner;
  all.wave_weight = values.wave_weight;
  all.product_overhead = values.us * 1e-6;
  return 1e6 * gemm_seconds(all, {time.m, time.n, time.k}, MatrixPrecision::bf16);
}

/// The coefficients for one wave weight: linear in 1/efficiency, half_inner/efficiency and us.
FormValues fitted_form(const FormRates& rates, const Products& products, double wave_weight,
                       std::size_t coefficients) {
  std::vector<Equation> equations;
  for (const MeasuredProduct* const product : products) {
    const ProductTime& time = product->time;
    FormValues whole;
    whole.efficiency = 1;
    whole.wave_weight = wave_weight;
    const double shortest = product_us(rates, whole, time);
    Equation equation;
    equation.factors[0] = shortest / time.us;
    equation.factors[1] = coefficients > 1 ? 1 / time.us : 0;
    equation.factors[2] = coefficients > 2 ? shortest / static_cast<double>(time.k) / time.us : 0;
    equations.push_back(equation);
  }
  const std::array<double, k_unknowns> solved = non_negative_least_squares(equations);
  FormValues values;
  values.wave_weight = wave_weight;
  values.efficiency = solved[0] > 0 ? 1 / solved[0] : 0;
  values.us = solved[1];
  values.half_inner = solved[0] > 0 ? solved[2] / solved[0] : 0;
  return values;
}

double squares_of(const FormRates& rates, const FormValues& values, const Products& products) {
  double sum = 0;
  for (const MeasuredProduct* const product : products) {
    const double error = product_us(rates, values, product->time) / product->time.us - 1;
    sum += error * error;
  }
  return sum;
}

FormValues best_form(const FormRates& rates, const Products& products) {
  FormValues best;
  double least = HUGE_VAL;
  for (int step = 0; step <= k_wave_steps; ++step) {
    const FormValues values =
        fitted_form(rates, products, static_cast<double>(step) / k_wave_steps, k_form_coefficients);
    const double squares = values.efficiency > 0 ? squares_of(rates, values, products) : HUGE_VAL;
    if (squares < least) {
      least = squares;
      best = values;
    }
  }
  return best;
}

ProductError error_of(const FormRates& rates, const FormValues& values, const Products& products) {
  ProductError result;
  std::vector<double> errors;
  for (const MeasuredProduct* const product : products) {
    const double error = std::abs(product_us(rates, values, product->time) / product->time.us - 1);
    errors.push_back(error);
    result.mean += error / static_cast<double>(products.size());
    if (error >= result.worst) {
      result.worst = error;
      result.worst_at = product->where;
    }
  }
  std::sort(errors.begin(), errors.end());
  const std::size_t count = errors.size();
  result.count = static_cast<std::int64_t>(count);
  result.median = count % 2 == 1 ? errors[count / 2] : (errors[(count / 2) - 1] + errors[count / 2]) / 2;
  result.p90 = errors[static_cast<std::size_t>(std::ceil(.9 * static_cast<double>(count))) - 1];
  return result;
}

/// The fit beside what is simpler, on the fitted products and on those held out.
void add_errors(const FormRates& rates, const FormValues& form, const Products& products,
                const Products& held_out, std::vector<ProductError>& errors) {
  const std::array<std::pair<const char*, FormValues>, 3> forms = {
      {{"all four", form},
       {"one efficiency", fitted_form(rates, products, 0, 1)},
       {"efficiency and us", fitted_form(rates, products, 0, 2)}}};
  for (const auto& [rows, members] : {std::pair("fitted", &products), std::pair("held out", &held_out)}) {
    for (const auto& [name, values] : forms) {
      if (!members->empty() && values.efficiency > 0) {
        ProductError error = error_of(rates, values, *members);
        error.rows = rows;
        error.dtype = members->front()->dtype;
        error.form = name;
        errors.push_back(std::move(error));
      }
    }
  }
}

/// Why the products of a type cannot be fitted; empty: they can.
std::string refusal_of(const Products& products, DType dtype, double processors) {
  std::set<ProductShape> shapes;
  std::set<std::int64_t> inner;
  std::set<std::int64_t> outer;
  for (const MeasuredProduct* const product : products) {
    shapes.insert(shape_of(product->time));
    inner.insert(product->time.k);
    outer.insert(product->time.m * product->time.n);
  }
  const std::string& where = products.front()->where;
  if (shapes.size() < k_form_coefficients) {
    return fmt::format("{}: {} shapes of products in {}; a fit of {} coefficients needs as many", where,
                       shapes.size(), name_of(dtype), k_form_coefficients);
  }
  if (inner.size() == 1) {
    return fmt::format("{}: all products in {} have k = {}; a fit needs two inner dimensions at least", where,
                       name_of(dtype), *inner.begin());
  }
  if (outer.size() == 1) {  // half_inner of one m x n is a time for every product
    return fmt::format("{}: all products in {} have m x n = {}: half_inner and us cannot be told apart",
                       where, name_of(dtype), *outer.begin());
  }
  if (processors < 1) {
    return fmt::format("{}: --multiprocessors is needed: how many the device has is not known", where);
  }
  return "";
}

/// The median of each shape's times.
std::vector<ProductTime> medians_of_shapes(const Products& products) {
  std::map<ProductShape, std::vector<double>> times;
  for (const MeasuredProduct* const product : products) {
    times[shape_of(product->time)].push_back(product->time.us);
  }
  std::vector<ProductTime> result;
  for (auto& [shape, values] : times) {
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    const double us = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
    result.push_back({shape[0], shape[1], shape[2], us});
  }
  return result;
}

Result<void> check_rates(const Machine& machine, const std::vector<MeasuredProduct>& products,
                         bool may_lack_peaks) {
  for (const MeasuredProduct& product : products) {
    const std::optional<double> peak = peak_of(machine.processor, product.dtype);
    const double rate = product_rate(product.time);
    if (!peak && may_lack_peaks) {
      continue;
    }
    if (!peak) {
      return failure(fmt::format("{}: {} has no peak of {}, which efficiencies are shares of", product.where,
                                 machine.name, name_of(product.dtype)));
    }
    if (!std::isfinite(rate) || rate > k_most_of_peak * *peak) {
      return failure(fmt::format(
          "{}: {:.4g} TFLOP/s, {:.3g} times the peak of {} ({:.4g} TFLOP/s): times are in another "
          "unit, or shapes of another product",
          product.where, rate / 1e12, rate / *peak, machine.name, *peak / 1e12));
    }
  }
  return {};
}

Quantity number_of_fit(double value, std::string unit, const std::string& source) {
  return {value, std::move(unit), source, 'M'};
}

const ProductTimes* of_exact_type(const Machine& machine, DType dtype) {
  const std::vector<ProductTimes>& all = machine.processor.products;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const ProductTimes& known) { return known.dtype == dtype; });
  return found == all.end() ? nullptr : &*found;
}

Quantity processors_of(const ProductFitInput& input, DType dtype) {
  const ProductTimes* const known = known_products(input.machine.processor, dtype);
  return input.processors.value > 0 || known == nullptr || !known->form ? input.processors
                                                                        : known->form->processors;
}

Products of_type(const std::vector<MeasuredProduct>& products, DType dtype) {
  Products result;
  for (const MeasuredProduct& product : products) {
    if (product.dtype == dtype) {
      result.push_back(&product);
    }
  }
  return result;
}

/// Empty, or why nothing was fitted.
std::string fit_type(const ProductFitInput& input, DType dtype, ProductFitOutput& output) {
  const Products products = of_type(input.products, dtype);
  const Quantity processors = processors_of(input, dtype);
  ProductTimes times;
  times.dtype = dtype;
  times.shapes = medians_of_shapes(products);
  times.shapes_source = input.source;
  std::string refusal = refusal_of(products, dtype, processors.value);
  if (refusal.empty()) {
    const FormRates rates{*peak_of(input.machine.processor, dtype), processors.value};
    const FormValues form = best_form(rates, products);
    if (form.efficiency > 0 && form.efficiency <= 1) {
      const std::string source = fmt::format("{}, fitted to {} products", input.source, products.size());
      times.form =
          ProductForm{number_of_fit(form.efficiency, "share", source), number_of_fit(form.us, "us", source),
                      number_of_fit(form.half_inner, "elements", source),
                      number_of_fit(form.wave_weight, "share", source), processors};
      add_errors(rates, form, products, of_type(input.held_out, dtype), output.errors);
    } else {
      refusal = fmt::format("{}: times of products in {} do not fit any efficiency from 0 to 1",
                            products.front()->where, name_of(dtype));
    }
  }
  if (const ProductTimes* const known = of_exact_type(output.machine, dtype);
      !times.form && known != nullptr) {
    times.form = known->form;
  }
  put_products(output.machine.processor, std::move(times));
  return refusal;
}

}  // namespace

Result<ProductFitOutput> calibrated_products(const ProductFitInput& input) {
  if (input.products.empty()) {
    return failure("no measured product to calibrate with");
  }
  for (const std::vector<MeasuredProduct>* const products : {&input.products, &input.held_out}) {
    if (const Result<void> checked = check_rates(input.machine, *products, input.keeps_unfit); !checked) {
      return tl::unexpected(checked.error());
    }
  }
  std::set<DType> types;
  for (const MeasuredProduct& product : input.products) {
    types.insert(product.dtype);
  }
  ProductFitOutput output;
  output.machine = input.machine;
  std::string error;
  for (const DType dtype : types) {
    if (!peak_of(input.machine.processor, dtype)) {
      output.notes.push_back(fmt::format("products in {} are left out: {} has no peak of that type",
                                         name_of(dtype), input.machine.name));
      continue;
    }
    const std::string refusal = fit_type(input, dtype, output);
    if (!refusal.empty() && input.keeps_unfit) {
      output.notes.push_back(refusal + "; their times are kept without a fit");
    } else if (!refusal.empty() && error.empty()) {
      error = refusal;
    }
  }
  if (error.empty() && output.machine.processor.products.empty()) {
    error = output.notes.front();
  }
  return error.empty() ? Result<ProductFitOutput>(std::move(output)) : failure(error);
}

}  // namespace commlens
