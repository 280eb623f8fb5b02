#include "commlens/machine/product_fields.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

namespace commlens {
namespace {

constexpr QuantityRule k_efficiency = {"share", .001, 1};
constexpr QuantityRule k_each = {"us", 0, 1000};
constexpr QuantityRule k_half_inner = {"elements", 0, 100'000};
constexpr QuantityRule k_wave_weight = {"share", 0, 1};
constexpr QuantityRule k_processors = {"multiprocessors", 1, 4096, true};
constexpr std::int64_t k_largest_side = 1'000'000'000;
constexpr std::array<std::string_view, 5> k_form_keys = {"efficiency", "per_gemm", "half_inner",
                                                         "wave_weight", "multiprocessors"};

std::optional<ProductForm> form_from(MachineFields& fields, const ConfigNode& node, const std::string& path) {
  if (std::none_of(k_form_keys.begin(), k_form_keys.end(),
                   [&](std::string_view key) { return find(node, key) != nullptr; })) {
    return std::nullopt;
  }
  const auto number = [&](std::string_view key, const QuantityRule& rule) {
    return fields.quantity(node, path, key, rule, true).value_or(Quantity{});
  };
  ProductForm form;
  form.efficiency = number("efficiency", k_efficiency);
  form.each = number("per_gemm", k_each);
  form.half_inner = number("half_inner", k_half_inner);
  form.wave_weight = number("wave_weight", k_wave_weight);
  form.processors = number("multiprocessors", k_processors);
  return form;
}

ProductTime shape_from(MachineFields& fields, const ConfigNode& row, const std::string& path, double peak) {
  if (row.kind != ConfigNode::Kind::list || row.items.size() != 4) {
    fields.fail(row, path, "must be four numbers: m, n, k and microseconds");
    return {};
  }
  const ProductTime shape{fields.count(row.items[0], path), fields.count(row.items[1], path),
                          fields.count(row.items[2], path), fields.number(row.items[3], path)};
  const auto [least, most] = std::minmax({shape.m, shape.n, shape.k});
  if (least < 1 || most > k_largest_side) {
    fields.fail(row, path, fmt::format("m, n and k must be from 1 to {}", k_largest_side));
  } else if (!(shape.us > 0)) {
    fields.fail(row, path, fmt::format("{} us cannot be; they must be above 0", shape.us));
  } else if (product_rate(shape) > k_most_of_peak * peak) {
    fields.fail(row, path,
                fmt::format("{} us are {:.1f} times as fast as the peak: another unit?", shape.us,
                            product_rate(shape) / peak));
  }
  return shape;
}

void read_shapes(MachineFields& fields, const ConfigNode& node, const std::string& path, double peak,
                 ProductTimes& products) {
  const ConfigNode* const shapes = fields.field(node, path, "shapes", false);
  if (shapes == nullptr) {
    return;
  }
  const std::string here = path + ".shapes";
  fields.known(*shapes, here, {"source", "confidence", "m_n_k_us"});
  products.shapes_source = fields.text(*shapes, here, "source");
  products.shapes_confidence = fields.confidence(*shapes, here);
  std::set<std::array<std::int64_t, 3>> seen;
  for (const ConfigNode& row : fields.items(*shapes, here, "m_n_k_us")) {
    const ProductTime shape = shape_from(fields, row, here + ".m_n_k_us", peak);
    if (!seen.insert({shape.m, shape.n, shape.k}).second) {
      fields.fail(row, here + ".m_n_k_us",
                  fmt::format("{} x {} x {} is there twice", shape.m, shape.n, shape.k));
    }
    products.shapes.push_back(shape);
  }
  if (products.shapes.empty()) {
    fields.fail(*shapes, here + ".m_n_k_us", "must hold at least one shape");
  }
}

}  // namespace

double product_rate(const ProductTime& product) {
  return 2.0 * static_cast<double>(product.m) * static_cast<double>(product.n) *
         static_cast<double>(product.k) / (product.us * 1e-6);
}

std::optional<double> peak_of(const Processor& processor, DType dtype) {
  for (const auto& [type, peak] : processor.peaks) {
    if (type == dtype) {
      return peak.value * 1e12;
    }
  }
  return std::nullopt;
}

const ProductTimes* known_products(const Processor& processor, DType dtype) {
  const auto is_half = [](DType type) { return type == DType::bf16 || type == DType::fp16; };
  const ProductTimes* found = nullptr;
  for (const ProductTimes& products : processor.products) {
    if (products.dtype == dtype) {
      return &products;
    }
    found = is_half(dtype) && is_half(products.dtype) ? &products : found;
  }
  return found;
}

void put_products(Processor& processor, ProductTimes products) {
  std::vector<ProductTimes>& all = processor.products;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const ProductTimes& known) { return known.dtype == products.dtype; });
  if (found == all.end()) {
    all.push_back(std::move(products));
  } else {
    *found = std::move(products);
  }
}

void read_products(MachineFields& fields, const ConfigNode& node, Processor& processor) {
  const ConfigNode* const gemm = fields.field(node, "processor", "gemm", false);
  if (gemm == nullptr) {
    return;
  }
  if (gemm->kind != ConfigNode::Kind::map) {
    fields.fail(*gemm, "processor.gemm", "must be an object with a block for each element type");
    return;
  }
  std::set<DType> seen;
  for (std::size_t index = 0; index < gemm->keys.size(); ++index) {
    const std::string path = "processor.gemm." + gemm->keys[index];
    const ConfigNode& block = gemm->items[index];
    const std::optional<DType> type = dtype_from(gemm->keys[index]);
    const std::optional<double> peak = type ? peak_of(processor, *type) : std::nullopt;
    if (!type || !peak || !seen.insert(*type).second) {
      fields.fail(block, path,
                  !type ? "is no element type"
                  : !peak
                      ? "needs processor.peaks." + gemm->keys[index] + ", of which efficiencies are shares"
                      : "is there twice");
      continue;
    }
    fields.known(block, path,
                 {"efficiency", "per_gemm", "half_inner", "wave_weight", "multiprocessors", "shapes"});
    ProductTimes products;
    products.dtype = *type;
    products.form = form_from(fields, block, path);
    read_shapes(fields, block, path, *peak, products);
    if (!products.form && products.shapes.empty()) {
      fields.fail(block, path, "needs the five numbers of the form, shapes, or both");
    }
    processor.products.push_back(std::move(products));
  }
}

}  // namespace commlens
