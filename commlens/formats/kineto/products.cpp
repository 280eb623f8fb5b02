#include "commlens/formats/kineto/products.hpp"

#include <optional>
#include <unordered_map>
#include <utility>

#include "commlens/formats/io/json_stream.hpp"
#include "commlens/formats/io/torch_names.hpp"
#include "commlens/formats/kineto/events.hpp"

namespace commlens::formats::kineto {
namespace {

struct ProductOp {
  std::int64_t external = -1;
  std::vector<std::vector<std::int64_t>> dimensions;  // of the two matrices
  std::string type;
};

/// Of addmm(bias, a, b) the last two.
ProductOp product_op(const KinetoEvent& event) {
  ProductOp op;
  op.external = event.external.value_or(-1);
  op.type = first_type(event.input_types);
  std::vector<std::vector<std::int64_t>> all = dimensions_of(event.input_dims);
  const std::size_t first = event.name == "aten::addmm" ? 1 : 0;
  if (all.size() >= first + 2) {
    op.dimensions = {all[first], all[first + 1]};
  }
  return op;
}

bool has_shape(const ProductOp& op) {
  return op.dimensions.size() == 2 && op.dimensions[0].size() == 2 && op.dimensions[1].size() == 2 &&
         op.dimensions[0][1] == op.dimensions[1][0] && op.dimensions[0][0] > 0 && op.dimensions[0][1] > 0 &&
         op.dimensions[1][1] > 0;
}

class ProductReader {
 public:
  void take(const KinetoEvent& event) {
    const KinetoRole role = event.phase == "X" ? role_of(event.category, event.name) : KinetoRole::none;
    if (role == KinetoRole::product) {
      ops_.push_back(product_op(event));
    } else if (role == KinetoRole::kernel && event.external && event.duration_ns && *event.duration_ns > 0) {
      kernels_[*event.external] += *event.duration_ns;
    }
  }

  TracedProducts result() const {
    TracedProducts result;
    for (const ProductOp& op : ops_) {
      const auto kernels = kernels_.find(op.external);
      const std::optional<DType> dtype = torch_dtype(op.type);
      if (!has_shape(op)) {
        ++result.without_shape;
      } else if (kernels == kernels_.end()) {
        ++result.without_kernel;
      } else if (!dtype) {
        ++result.of_other_types;
      } else {
        result.products.push_back(
            {*dtype, op.dimensions[0][0], op.dimensions[1][1], op.dimensions[0][1], kernels->second});
      }
    }
    return result;
  }

 private:
  std::vector<ProductOp> ops_;
  std::unordered_map<std::int64_t, std::int64_t> kernels_;  // ns, by op
};

}  // namespace

Result<TracedProducts> read_products(const std::filesystem::path& path) {
  return JsonStream::open(path, "traceEvents").and_then([](JsonStream stream) -> Result<TracedProducts> {
    ProductReader reader;
    JsonStream::Piece piece;
    std::string error;
    for (bool has_more = true; has_more;) {
      const Result<bool> more = stream.next(piece);
      error = more ? "" : more.error().message;
      has_more = more && *more;
      if (has_more && piece.is_run) {
        read_kineto_events(piece.json, [&](const KinetoEvent& event) { reader.take(event); });
      }
    }
    return error.empty() ? Result<TracedProducts>(reader.result()) : failure(error);
  });
}

}  // namespace commlens::formats::kineto
