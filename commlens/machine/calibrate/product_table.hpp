#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/dtype.hpp"
#include "commlens/base/result.hpp"
#include "commlens/machine/machine.hpp"

namespace commlens {

/// A measured time of a matrix product.
struct MeasuredProduct {
  DType dtype = DType::bf16;
  ProductTime time;
  std::string where;  // "FILE:LINE"
};

/// What a file of measured products holds, and what of it was skipped.
struct ProductFile {
  std::vector<MeasuredProduct> products;
  std::vector<std::string> notes;
};

/// Whether a text is one of the tables that parse_product_table reads.
bool is_product_table(std::string_view content);

/// Products [m, k] x [k, n], a row each:
///   m,n,k,dtype,microseconds                    CSV
///   accelerator.op.matmul of SimuMax's systems  JSON: "b=1, m=…, k=…, n=…": share of its `tflops`; its keys
///   do
///                                               not name the operands' type, taken as bf16 (fp8_matmul: fp8)
/// Fails on a row that cannot be (a time that is no positive number, say), and on a table without rows.
Result<ProductFile> parse_product_table(const std::string& file, std::string_view content);

}  // namespace commlens
