#include "commlens/engine/tensor_comm.hpp"

#include <utility>

#include <fmt/format.h>

#include "commlens/base/check.hpp"
#include "commlens/base/result.hpp"

namespace commlens::engine {
namespace {

/// The call for a kind and its tensors; `input` or `output` may be undefined.
CommCall call_of(CommKind kind, const torch::Tensor& input, const torch::Tensor& output,
                 std::string_view tag) {
  const torch::Tensor& any = input.defined() ? input : output;
  CommCall call{.kind = kind, .dtype = dtype_of(any), .tag = tag};
  if (input.defined()) {
    COMMLENS_CHECK(input.is_contiguous(), "a call moves contiguous memory");
    call.input_buffer = input.data_ptr();
    call.input = {input.numel()};
  }
  if (output.defined()) {
    COMMLENS_CHECK(output.is_contiguous(), "a call moves contiguous memory");
    call.output_buffer = output.data_ptr();
    call.output = {output.numel()};
  }
  return call;
}

TensorWork collective(Communicator& group, const CommCall& call, const torch::Tensor& input,
                      const torch::Tensor& output, Completion completion) {
  if (group.size() > 1 && completion == Completion::later) {
    return {group.start(call), input, output};
  }
  if (group.size() > 1) {
    group.run(call);
    return {};
  }
  if (input.data_ptr() != output.data_ptr()) {
    const torch::NoGradGuard no_grad;
    // Bypasses the version counter of tensors saved by autograd, as a call does.
    output.variable_data().view({-1}).copy_(input.view({-1}));
  }
  return {};
}

}  // namespace

DType dtype_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat64:
      return DType::fp64;
    case torch::kFloat32:
      return DType::fp32;
    case torch::kFloat16:
      return DType::fp16;
    case torch::kBFloat16:
      return DType::bf16;
    case torch::kInt64:
      return DType::int64;
    case torch::kInt32:
      return DType::int32;
    case torch::kInt8:
      return DType::int8;
    case torch::kUInt8:
      return DType::uint8;
    default:
      throw SystemError(
          fmt::format("no communicator moves elements of type {}", torch::toString(tensor.scalar_type())));
  }
}

torch::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return torch::kFloat64;
    case DType::fp32:
      return torch::kFloat32;
    case DType::fp16:
      return torch::kFloat16;
    case DType::bf16:
      return torch::kBFloat16;
    case DType::int64:
      return torch::kInt64;
    case DType::int32:
      return torch::kInt32;
    case DType::int16:
      return torch::kInt16;
    case DType::int8:
      return torch::kInt8;
    case DType::uint8:
      return torch::kUInt8;
    case DType::boolean:
      return torch::kBool;
    case DType::fp8:
      break;
  }
  throw SystemError(fmt::format("LibTorch has no element type {}", name_of(dtype)));
}

TensorWork::TensorWork(std::unique_ptr<Work> work, torch::Tensor input, torch::Tensor output)
    : input_(std::move(input)), output_(std::move(output)), work_(std::move(work)) {}

void TensorWork::wait() {
  if (work_) {
    work_->wait();
    work_.reset();
    input_ = torch::Tensor();
    output_ = torch::Tensor();
  }
}

TensorWork all_reduce(Communicator& group, const torch::Tensor& tensor, std::string_view tag,
                      Completion completion, ReduceOp reduction) {
  CommCall call = call_of(CommKind::all_reduce, tensor, tensor, tag);
  call.reduction = reduction;
  return collective(group, call, tensor, tensor, completion);
}

TensorWork all_gather(Communicator& group, const torch::Tensor& shard, const torch::Tensor& whole,
                      std::string_view tag, Completion completion) {
  return collective(group, call_of(CommKind::all_gather, shard, whole, tag), shard, whole, completion);
}

TensorWork reduce_scatter(Communicator& group, const torch::Tensor& whole, const torch::Tensor& shard,
                          std::string_view tag, Completion completion) {
  return collective(group, call_of(CommKind::reduce_scatter, whole, shard, tag), whole, shard, completion);
}

void all_to_all(Communicator& group, const torch::Tensor& input, const torch::Tensor& output,
                std::string_view tag) {
  collective(group, call_of(CommKind::all_to_all, input, output, tag), input, output, Completion::now);
}

void recv(Communicator& group, const torch::Tensor& tensor, GroupRank from, std::string_view tag) {
  CommCall call = call_of(CommKind::recv, {}, tensor, tag);
  call.peer = from;
  group.run(call);
}

TensorWork send(Communicator& group, const torch::Tensor& tensor, GroupRank to, std::string_view tag) {
  CommCall call = call_of(CommKind::send, tensor, {}, tag);
  call.peer = to;
  return {group.start(call), tensor, {}};
}

}  // namespace commlens::engine
