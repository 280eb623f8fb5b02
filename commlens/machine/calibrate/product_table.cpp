#include "commlens/machine/calibrate/product_table.hpp"

#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/csv.hpp"
#include "commlens/base/text.hpp"
#include "commlens/config/json_document.hpp"
#include "commlens/machine/calibrate/sweep.hpp"

namespace commlens {
namespace {

constexpr std::string_view k_product_header = "m,n,k,dtype,microseconds";
constexpr std::string_view k_shares_key = "accurate_efficient_factor";
constexpr double k_most_side = 1e9;

Result<std::int64_t> side_at(const std::string& where, std::string_view name, const std::string& text) {
  const Result<double> value = parse_number(text);
  if (!value || !(*value >= 1) || *value > k_most_side || *value != std::floor(*value)) {
    return failure(fmt::format("{}: {} is '{}'; it must be a whole number from 1 to {:g}", where, name, text,
                               k_most_side));
  }
  return static_cast<std::int64_t>(*value);
}

Result<ProductTime> shape_at(const std::string& where, const std::array<std::string, 3>& texts) {
  return side_at(where, "m", texts[0]).and_then([&](std::int64_t m) {
    return side_at(where, "n", texts[1]).and_then([&](std::int64_t n) {
      return side_at(where, "k", texts[2]).map([&](std::int64_t k) { return ProductTime{m, n, k, 0}; });
    });
  });
}

Result<double> above_zero(const std::string& where, std::string_view name, const std::string& text) {
  const Result<double> value = parse_number(text);
  if (!value || !(*value > 0) || !std::isfinite(*value)) {
    return failure(fmt::format("{}: {} is '{}'; it must be a number above 0", where, name, text));
  }
  return *value;
}

Result<MeasuredProduct> product_row(const CsvTable& table, const CsvTable::Row& row,
                                    const std::string& where) {
  const std::optional<DType> dtype = element_type_from(table.cell(row, "dtype"));
  if (!dtype) {
    return failure(fmt::format("{}: dtype '{}' is not known", where, table.cell(row, "dtype")));
  }
  return shape_at(where, {table.cell(row, "m"), table.cell(row, "n"), table.cell(row, "k")})
      .and_then([&](ProductTime shape) {
        return above_zero(where, "microseconds", table.cell(row, "microseconds")).map([&](double us) {
          shape.us = us;
          return MeasuredProduct{*dtype, shape, where};
        });
      });
}

Result<ProductFile> parse_product_csv(const std::string& file, std::string_view content) {
  const Result<CsvTable> table = parse_csv(content);
  if (!table) {
    return failure(fmt::format("{}: {}", file, table.error().message));
  }
  ProductFile result;
  std::string error;
  for (const CsvTable::Row& row : table->rows) {
    Result<MeasuredProduct> product = product_row(*table, row, fmt::format("{}:{}", file, row.line));
    if (!product) {
      error = product.error().message;
      break;
    }
    result.products.push_back(std::move(*product));
  }
  return error.empty() ? Result<ProductFile>(std::move(result)) : failure(error);
}

/// The value of "name=" in "b=1, m=4096, k=5120, …".
std::string named_value(std::string_view key, std::string_view name) {
  const std::string before = fmt::format(" {}=", name);
  const std::string text = " " + std::string(key);
  const std::size_t found = text.find(before);
  if (found == std::string::npos) {
    return "";
  }
  const std::size_t start = found + before.size();
  return text.substr(start, text.find(',', start) - start);
}

Result<void> add_shares(const ConfigNode& block, DType dtype, ProductFile& result) {
  const ConfigNode* const shares = find(block, k_shares_key);
  const ConfigNode* const tflops = find(block, "tflops");
  if (shares == nullptr || shares->kind != ConfigNode::Kind::map || shares->keys.empty()) {
    return {};
  }
  const Result<double> peak =
      tflops == nullptr ? failure("tflops is missing") : above_zero(tflops->where(), "tflops", tflops->text);
  if (!peak) {
    return failure(tflops == nullptr ? fmt::format("{}: {}", block.where(), peak.error().message)
                                     : peak.error().message);
  }
  std::int64_t batched = 0;
  for (std::size_t index = 0; index < shares->keys.size(); ++index) {
    const std::string& key = shares->keys[index];
    const std::string where = shares->items[index].where();
    if (const std::string batch = named_value(key, "b"); !batch.empty() && batch != "1") {
      ++batched;
      continue;
    }
    const Result<ProductTime> shape =
        shape_at(where, {named_value(key, "m"), named_value(key, "n"), named_value(key, "k")});
    const Result<double> share = above_zero(where, "the share of the peak", shares->items[index].text);
    if (!shape || !share) {
      return tl::unexpected(!shape ? shape.error() : share.error());
    }
    ProductTime time = *shape;
    time.us = 2.0 * static_cast<double>(time.m) * static_cast<double>(time.n) * static_cast<double>(time.k) /
              (*peak * *share * 1e6);
    result.products.push_back({dtype, time, where});
  }
  if (batched > 0) {
    result.notes.push_back(fmt::format("{}: {} batched products are skipped", shares->where(), batched));
  }
  return {};
}

Result<ProductFile> parse_product_shares(const std::string& file, std::string_view content) {
  return parse_json(file, content).and_then([&](const ConfigNode& root) -> Result<ProductFile> {
    const ConfigNode* node = &root;
    for (const std::string_view key : {"accelerator", "op"}) {
      node = node != nullptr && node->kind == ConfigNode::Kind::map ? find(*node, key) : nullptr;
    }
    ProductFile result;
    constexpr std::array<std::pair<std::string_view, DType>, 2> blocks = {
        {{"matmul", DType::bf16}, {"fp8_matmul", DType::fp8}}};
    for (const auto& [key, dtype] : blocks) {
      const ConfigNode* const block =
          node != nullptr && node->kind == ConfigNode::Kind::map ? find(*node, key) : nullptr;
      if (block == nullptr || block->kind != ConfigNode::Kind::map) {
        continue;
      }
      if (const Result<void> added = add_shares(*block, dtype, result); !added) {
        return tl::unexpected(added.error());
      }
    }
    return result;
  });
}

}  // namespace

bool is_product_table(std::string_view content) {
  return content.starts_with(k_product_header) ||
         (content.starts_with('{') && content.find(k_shares_key) != std::string_view::npos);
}

Result<ProductFile> parse_product_table(const std::string& file, std::string_view content) {
  const Result<ProductFile> read = content.starts_with(k_product_header)
                                       ? parse_product_csv(file, content)
                                       : parse_product_shares(file, content);
  return read.and_then([&](const ProductFile& table) -> Result<ProductFile> {
    if (table.products.empty()) {
      return failure(fmt::format("{}: no row with a time of a matrix product", file));
    }
    return table;
  });
}

}  // namespace commlens
