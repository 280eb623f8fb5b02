#include "commlens/app/calibrate_products.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "commlens/app/calibrate.hpp"
#include "commlens/app/residuals.hpp"
#include "commlens/base/file.hpp"
#include "commlens/machine/machines.hpp"
#include "commlens/report/vocabulary.hpp"
#include "commlens/simulate/machine_hardware.hpp"

namespace commlens {
namespace {

constexpr std::int64_t k_most_table_bytes = std::int64_t{64} << 20;

Result<std::vector<MeasuredProduct>> read_product_tables(const Events& events,
                                                         const std::vector<std::string>& files) {
  std::vector<MeasuredProduct> all;
  std::string error;
  if (const std::string twice = given_twice(files); !twice.empty()) {
    return failure(fmt::format("{}: is given twice", twice));
  }
  for (const std::string& file : files) {
    const Result<ProductFile> table =
        read_text_file(file, k_most_table_bytes).and_then([&](const std::string& content) {
          return is_product_table(content)
                     ? parse_product_table(file, content)
                     : failure(fmt::format(
                           "{}: is no table of matrix products, as other files are; calibrate it alone",
                           file));
        });
    if (!table) {
      error = table.error().message;
      break;
    }
    for (const std::string& note : table->notes) {
      events.warn(note);
    }
    all.insert(all.end(), table->products.begin(), table->products.end());
  }
  return error.empty() ? Result<std::vector<MeasuredProduct>>(std::move(all)) : failure(error);
}

Table product_error_table(const CalibratedProducts& result) {
  Table table(columns({"rows_are", "dtype", "form", "points", "mean_error_share", "median_error_share",
                       "p90_error_share", "worst_error_share", Column{.key = "worst_at", .least = 10}}));
  for (const ProductError& error : result.errors) {
    table.add({error.rows, name_of(error.dtype), error.form, error.count, error.mean, error.median, error.p90,
               error.worst, error.worst_at});
  }
  return table;
}

Quantity known_processors(const CalibrateProductsRequest& request, const Machine& machine) {
  Quantity count{static_cast<double>(request.processors), "multiprocessors", "--multiprocessors", 'C'};
  const Accelerator* const known = accelerator_of(machine);
  const bool has_block = !machine.processor.products.empty() && machine.processor.products.front().form;
  if (request.processors == 0 && has_block) {
    return machine.processor.products.front().form->processors;
  }
  if (request.processors == 0 && known != nullptr) {
    count.value = known->hardware.processors;
    count.source = "commlens data/training/accelerators.json: " + known->name;
  }
  return count;
}

CalibratedProducts with_lines(ProductFitOutput output) {
  CalibratedProducts result{std::move(output.machine), std::move(output.errors), {}};
  for (const ProductTimes& products : result.machine.processor.products) {
    if (products.form) {
      const ProductForm& form = *products.form;
      result.lines.push_back(
          fmt::format("{}: efficiency {:.3f}, {:.3g} us a product, half of it at an inner dimension of "
                      "{:.3g}, wave weight "
                      "{:.2f}, {:.0f} multiprocessors; {} shapes measured",
                      name_of(products.dtype), form.efficiency.value, form.each.value, form.half_inner.value,
                      form.wave_weight.value, form.processors.value, products.shapes.size()));
    }
  }
  return result;
}

}  // namespace

bool names_product_table(const std::string& file) {
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(file, unreadable)) {
    return false;
  }
  const Result<std::string> content = read_text_file(file, k_most_table_bytes);
  return content && is_product_table(*content);
}

Result<Machine> machine_of_products(const CalibrateProductsRequest& request) {
  return request.machine.empty() ? failure("--machine is needed: the files do not say what was measured")
                                 : find_machine(request.machine);
}

Result<CalibratedProducts> fitted_products(const CalibrateProductsRequest& request, ProductFitInput input) {
  input.source = source_of_numbers(request.source, request.files);
  input.processors = known_processors(request, input.machine);
  return calibrated_products(input).map([&](ProductFitOutput output) {
    for (const std::string& note : output.notes) {
      request.events.warn(note);
    }
    return with_lines(std::move(output));
  });
}

Result<CalibratedProducts> calibrate_products(const CalibrateProductsRequest& request) {
  return machine_of_products(request).and_then([&](const Machine& machine) {
    return read_product_tables(request.events, request.files).and_then([&](auto products) {
      return read_product_tables(request.events, request.held_out).and_then([&](auto held_out) {
        return fitted_products(request, {machine, std::move(products), std::move(held_out)});
      });
    });
  });
}

std::string rendered(const CalibratedProducts& result, Format format, const TextStyle& style) {
  return rendered_residuals(result.machine, result.lines, product_error_table(result), format, style);
}

}  // namespace commlens
