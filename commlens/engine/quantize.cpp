#include "commlens/engine/quantize.hpp"

#include "commlens/base/check.hpp"
#include "commlens/base/units.hpp"
#include "commlens/frameworks/commlens/flat_units.hpp"

namespace commlens::engine {
namespace {

namespace F = torch::nn::functional;

constexpr std::int64_t k_nibble = 16;

double largest(QuantizedBits bits) { return bits == QuantizedBits::int8 ? 127.0 : 7.0; }

std::int64_t value_bytes(std::int64_t count, QuantizedBits bits) {
  return bits == QuantizedBits::int8 ? count : ceil_div(count, 2);
}

torch::Tensor padded_to(const torch::Tensor& rows, std::int64_t count) {
  return F::pad(rows, F::PadFuncOptions({0, count - rows.size(1)}));
}

}  // namespace

torch::Tensor quantized(const torch::Tensor& rows, QuantizedBits bits) {
  const torch::NoGradGuard no_grad;
  const std::int64_t count = rows.size(1);
  const std::int64_t blocks = ceil_div(count, k_quantized_block);
  const torch::Tensor blocked = padded_to(rows.to(torch::kFloat32), blocks * k_quantized_block)
                                    .view({rows.size(0), blocks, k_quantized_block});
  const torch::Tensor scales = blocked.abs().amax(2) / largest(bits);  // [n, blocks]
  const torch::Tensor safe = torch::where(scales > 0, scales, torch::ones_like(scales));
  torch::Tensor values = (blocked / safe.unsqueeze(2)).round_().view({rows.size(0), -1}).narrow(1, 0, count);
  if (bits == QuantizedBits::int4) {
    const std::int64_t bytes = value_bytes(count, bits);
    const torch::Tensor pairs =
        (padded_to(values, 2 * bytes) + k_nibble / 2).to(torch::kUInt8).view({rows.size(0), bytes, 2});
    values = pairs.select(2, 0) + pairs.select(2, 1) * k_nibble;
  } else {
    values = values.to(torch::kInt8).contiguous().view(torch::kUInt8);
  }
  return torch::cat({values, scales.contiguous().view(torch::kUInt8)}, 1).contiguous();
}

torch::Tensor dequantized(const torch::Tensor& bytes, std::int64_t count, QuantizedBits bits) {
  const torch::NoGradGuard no_grad;
  const std::int64_t blocks = ceil_div(count, k_quantized_block);
  const std::int64_t wide = value_bytes(count, bits);
  COMMLENS_CHECK(bytes.size(1) == wide + 4 * blocks, "a row is its values and its scales");
  // A copy, because a float must not start at an odd byte.
  const torch::Tensor scales =
      bytes.narrow(1, wide, 4 * blocks).clone(torch::MemoryFormat::Contiguous).view(torch::kFloat32);
  torch::Tensor values = bytes.narrow(1, 0, wide).contiguous();
  if (bits == QuantizedBits::int4) {
    const torch::Tensor low = values.remainder(k_nibble);
    const torch::Tensor high = values.floor_divide(k_nibble);
    values = torch::stack({low, high}, 2).view({bytes.size(0), -1}).to(torch::kFloat32) - k_nibble / 2;
  } else {
    values = values.view(torch::kInt8).to(torch::kFloat32);
  }
  values = padded_to(values.narrow(1, 0, count), blocks * k_quantized_block)
               .view({bytes.size(0), blocks, k_quantized_block});
  return (values * scales.unsqueeze(2)).view({bytes.size(0), -1}).narrow(1, 0, count).contiguous();
}

}  // namespace commlens::engine
