#include "commlens/engine/unit_storage.hpp"

#include <algorithm>
#include <utility>

#include "commlens/base/check.hpp"

namespace commlens::engine {
namespace {

/// Releases the memory of a tensor and of all its views, or allocates it again (contents undefined). Views,
/// including those saved by autograd, stay valid.
void resize_memory(const torch::Tensor& tensor, std::size_t bytes) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() == bytes) {
    return;
  }
  c10::Allocator* const allocator = c10::GetAllocator(tensor.device().type());
  storage->set_data_ptr(bytes == 0 ? at::DataPtr(nullptr, tensor.device()) : allocator->allocate(bytes));
  storage->set_nbytes(bytes);
}

std::size_t whole_bytes(const torch::Tensor& tensor) { return tensor.nbytes(); }

}  // namespace

UnitStorage::UnitStorage(FlatUnit unit, const HeldChunk& chunk, const Sharding& sharding,
                         torch::ScalarType dtype, torch::Device device)
    : unit_(std::move(unit)), sharding_(sharding) {
  const torch::TensorOptions model = torch::TensorOptions().dtype(dtype).device(device);
  const torch::TensorOptions fp32 = model.dtype(torch::kFloat32);
  const bool is_sharded = sharding.zero_stage > 0;
  owned_count_ = is_sharded ? unit_.padded / sharding.ranks : unit_.count;
  owned_begin_ = is_sharded ? owned_count_ * sharding.rank : 0;
  flat = torch::zeros({unit_.padded}, model);
  gradient = torch::zeros({unit_.padded}, model);
  shard = sharding.zero_stage == 3 ? torch::zeros({owned_count_}, model)
                                   : flat.narrow(0, owned_begin_, owned_count_);
  if (sharding.zero_stage == 3 && sharding.secondary > 1 && !unit_.is_persistent) {
    secondary = torch::zeros({unit_.padded / sharding.secondary}, model);
  }
  master = dtype == torch::kFloat32 ? shard : torch::zeros({owned_count_}, fp32);
  const bool is_summed_in_place = !is_sharded && dtype == torch::kFloat32;
  owned_gradient =
      is_summed_in_place ? gradient.narrow(0, 0, unit_.count) : torch::zeros({owned_count_}, fp32);
  first_moment = torch::zeros({owned_count_}, fp32);
  second_moment = torch::zeros({owned_count_}, fp32);
  make_parameters(chunk);
  find_segments();
  if (!keeps_parameters()) {
    release_parameters();
  }
  if (sharding.zero_stage >= 2) {
    release_gradient();
  }
}

void UnitStorage::make_parameters(const HeldChunk& chunk) {
  std::int64_t offset = 0;
  for (const std::size_t row : unit_.parameters) {
    const HeldParameter& held = chunk.parameters[row];
    torch::Tensor parameter = flat.narrow(0, offset, held.count).view(held.shape).detach();
    parameter.set_requires_grad(true);
    parameter.mutable_grad() = gradient.narrow(0, offset, held.count).view(held.shape).detach();
    parameters_.push_back(std::move(parameter));
    offsets_.push_back(offset);
    offset += held.count;
  }
  offsets_.push_back(offset);
  COMMLENS_CHECK(offset == unit_.count, "a unit holds its parameters and nothing else");
}

void UnitStorage::find_segments() {
  for (std::size_t i = 0; i < unit_.parameters.size(); ++i) {
    const std::int64_t begin = std::max(offsets_[i], owned_begin_);
    const std::int64_t end = std::min(offsets_[i + 1], owned_begin_ + owned_count_);
    if (begin < end) {
      segments_.push_back({unit_.parameters[i], begin - offsets_[i], begin - owned_begin_, end - begin});
    }
  }
}

const torch::Tensor* UnitStorage::parameter(std::size_t row) const {
  const auto found = std::find(unit_.parameters.begin(), unit_.parameters.end(), row);
  return found == unit_.parameters.end()
             ? nullptr
             : &parameters_[static_cast<std::size_t>(found - unit_.parameters.begin())];
}

/// First element of a parameter within the unit.
std::int64_t UnitStorage::position_of(std::size_t row) const {
  const auto found = std::find(unit_.parameters.begin(), unit_.parameters.end(), row);
  COMMLENS_CHECK(found != unit_.parameters.end(), "the parameter lies in this unit");
  return offsets_[static_cast<std::size_t>(found - unit_.parameters.begin())];
}

void UnitStorage::set_values(std::size_t row, std::int64_t offset, const torch::Tensor& values) {
  const torch::NoGradGuard no_grad;
  if (keeps_parameters()) {
    flat.narrow(0, position_of(row) + offset, values.numel()).copy_(values.reshape({-1}));
  }
  set_owned(master, row, offset, values);
  set_owned(shard, row, offset, values);
}

void UnitStorage::set_owned(const torch::Tensor& owned, std::size_t row, std::int64_t offset,
                            const torch::Tensor& values) const {
  const torch::NoGradGuard no_grad;
  const std::int64_t first = position_of(row) + offset;
  const std::int64_t begin = std::max(first, owned_begin_);
  const std::int64_t end = std::min(first + values.numel(), owned_begin_ + owned_count_);
  if (begin < end) {
    const torch::Tensor part = values.reshape({-1}).narrow(0, begin - first, end - begin);
    owned.narrow(0, begin - owned_begin_, end - begin).copy_(part);
  }
}

void UnitStorage::publish() {
  const torch::NoGradGuard no_grad;
  if (master.data_ptr() != shard.data_ptr()) {
    shard.copy_(master);
  }
}

void UnitStorage::allocate_parameters() { resize_memory(flat, whole_bytes(flat)); }

void UnitStorage::release_parameters() { resize_memory(flat, 0); }

void UnitStorage::allocate_gradient() {
  const torch::NoGradGuard no_grad;
  resize_memory(gradient, whole_bytes(gradient));
  gradient.zero_();
}

void UnitStorage::release_gradient() { resize_memory(gradient, 0); }

}  // namespace commlens::engine
