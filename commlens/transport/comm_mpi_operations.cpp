// Part of the module libcommlens-mpi-*.so.
#include "commlens/transport/comm_mpi_operations.hpp"

#include <array>
#include <cstddef>

#include <fmt/format.h>

#include "commlens/base/result.hpp"
#include "commlens/transport/comm_mpi_work.hpp"
#include "commlens/transport/reduce_kernels.hpp"

namespace commlens {
namespace {

/// An MPI_User_function. MPI combines pairs of messages, so each of its sums of two-byte floats is rounded.
template <DType Type, ReduceOp Reduction>
void combine_pairs(void* input, void* inout, int* count, MPI_Datatype* /*type*/) {
  const std::array<const std::byte*, 2> inputs{static_cast<const std::byte*>(input),
                                               static_cast<const std::byte*>(inout)};
  const std::array<std::byte*, 1> outputs{static_cast<std::byte*>(inout)};
  combine(Type, Reduction, inputs, outputs, {.count = *count});
}

}  // namespace

void average(DType type, void* sums, Elements count, std::int64_t ranks) {
  const std::array<const std::byte*, 1> inputs{static_cast<const std::byte*>(sums)};
  const std::array<std::byte*, 1> outputs{static_cast<std::byte*>(sums)};
  combine(type, ReduceOp::avg, inputs, outputs, {.count = count.value, .divisor = ranks});
}

MPI_Datatype mpi_type(DType type) {
  switch (type) {
    case DType::fp64:
      return MPI_DOUBLE;
    case DType::fp32:
      return MPI_FLOAT;
    case DType::fp16:
    case DType::bf16:
      return MPI_UINT16_T;
    case DType::int64:
      return MPI_INT64_T;
    case DType::int32:
      return MPI_INT32_T;
    case DType::int16:
      return MPI_INT16_T;
    case DType::int8:
      return MPI_INT8_T;
    case DType::fp8:
    case DType::boolean:
    case DType::uint8:
      return MPI_UINT8_T;
  }
  return MPI_DATATYPE_NULL;
}

template <DType Type>
MpiOperations::Pair MpiOperations::own() {
  Pair pair;
  mpi_check(MPI_Op_create(&combine_pairs<Type, ReduceOp::sum>, 1, &pair.sum), "MPI_Op_create");
  mpi_check(MPI_Op_create(&combine_pairs<Type, ReduceOp::max>, 1, &pair.max), "MPI_Op_create");
  return pair;
}

MpiOperations MpiOperations::made() {
  MpiOperations operations;
  operations.fp16_ = own<DType::fp16>();
  operations.bf16_ = own<DType::bf16>();
  operations.int16_ = own<DType::int16>();
  operations.int8_ = own<DType::int8>();
  operations.uint8_ = own<DType::uint8>();
  return operations;
}

MPI_Op MpiOperations::op(DType type, ReduceOp reduction) const {
  if (!can_combine(type)) {
    throw SystemError(fmt::format("MPI cannot add or compare {}", name_of(type)));
  }
  return reduction == ReduceOp::max ? of(type).max : of(type).sum;
}

const MpiOperations::Pair& MpiOperations::of(DType type) const {
  switch (type) {
    case DType::fp16:
      return fp16_;
    case DType::bf16:
      return bf16_;
    case DType::int16:
      return int16_;
    case DType::int8:
      return int8_;
    case DType::uint8:
      return uint8_;
    case DType::fp64:
    case DType::fp32:
    case DType::fp8:
    case DType::boolean:
    case DType::int64:
    case DType::int32:
      break;
  }
  return plain_;
}

}  // namespace commlens
