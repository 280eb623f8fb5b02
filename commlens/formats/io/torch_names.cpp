#include "commlens/formats/io/torch_names.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace commlens::formats {
namespace {

/// Lower case letters and digits only: "_allgather_base" and "all_gather_base" are one name then.
std::string bare(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') {
      text += static_cast<char>(c - 'A' + 'a');
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      text += c;
    }
  }
  return text;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Parts of the names of communication kernels, in bare form.
constexpr std::array<std::string_view, 10> k_kernel_marks = {
    "nccl",           // ncclKernel_*, ncclDevKernel_*; RCCL's kernels have the same names
    "rccl", "msccl",  // MSCCL and MSCCL++
    "allreduce",      // multimem_all_reduce_kernel, two_shot_all_reduce_kernel (torch symmetric memory),
                      // allreduce_fusion_kernel_oneshot_lamport (FlashInfer, TensorRT-LLM), quick_all_reduce
    "allgather", "reducescatter", "alltoall",
    "crossdevicereduce",  // vLLM, SGLang, AITER
    "userbuffers",        // Transformer Engine
    "nvshmem"};

/// Kernels that carry tokens to experts and back: deep_ep::intranode::dispatch,
/// dpsk::ep::internode::combine_ll (DeepEP), EpDispatchIntraNodeKernel (MORI).
bool is_expert_kernel(std::string_view name) {
  return contains(name, "ep::internode") || contains(name, "ep::intranode") ||
         ((contains(name, "EpDispatch") || contains(name, "EpCombine")) &&
          (contains(name, "InterNode") || contains(name, "IntraNode")));
}

/// Huawei's library: "hcom_allReduce__123_0".
bool is_hccl(std::string_view name) { return name.starts_with("hcom_"); }

constexpr std::array<std::string_view, 5> k_kernel_ops = {"allreduce", "reducescatter", "allgather",
                                                          "alltoall", "broadcast"};

}  // namespace

TorchCollective torch_collective(std::string_view name) {
  if (const std::size_t colon = name.rfind(':'); colon != std::string_view::npos) {
    name.remove_prefix(colon + 1);
  }
  const std::string text = bare(name);
  const auto starts = [&](std::string_view part) { return text.starts_with(part); };
  if (text.empty() || starts("wait") || starts("init") || starts("startcoalescing") ||
      starts("endcoalescing") || starts("waittensor")) {
    return {CommKind::other, false};
  }
  if (starts("allreduce")) {
    return {CommKind::all_reduce};
  }
  if (starts("allgather")) {
    return {CommKind::all_gather};
  }
  if (starts("reducescatter")) {
    return {CommKind::reduce_scatter};
  }
  if (starts("alltoall")) {
    return {CommKind::all_to_all};
  }
  if (starts("broadcast")) {
    return {CommKind::broadcast};
  }
  if (text == "reduce" || text == "reduceoop") {
    return {CommKind::reduce};
  }
  if (starts("barrier") || starts("monitoredbarrier")) {
    return {CommKind::barrier};
  }
  if (text == "send" || text == "isend") {
    return {CommKind::send};
  }
  if (starts("recv") || text == "irecv") {
    return {CommKind::recv};
  }
  return {};
}

std::optional<DType> torch_dtype(std::string_view name) {
  if (name.starts_with("c10::")) {
    name.remove_prefix(5);
  }
  constexpr std::array<std::pair<std::string_view, DType>, 24> names = {
      {{"Float", DType::fp32},       {"float", DType::fp32},  {"Double", DType::fp64},
       {"double", DType::fp64},      {"Half", DType::fp16},   {"BFloat16", DType::bf16},
       {"Long", DType::int64},       {"long", DType::int64},  {"long int", DType::int64},
       {"UInt64", DType::int64},     {"Int", DType::int32},   {"int", DType::int32},
       {"UInt32", DType::int32},     {"Short", DType::int16}, {"short", DType::int16},
       {"UInt16", DType::int16},     {"Char", DType::int8},   {"char", DType::int8},
       {"signed char", DType::int8}, {"Byte", DType::uint8},  {"unsigned char", DType::uint8},
       {"Bool", DType::uint8},       {"bool", DType::uint8},  {"short int", DType::int16}}};
  const auto* const found =
      std::find_if(names.begin(), names.end(), [&](const auto& row) { return row.first == name; });
  if (found != names.end()) {
    return found->second;
  }
  return name.starts_with("Float8") ? std::optional(DType::fp8) : std::nullopt;
}

bool is_communication_kernel(std::string_view name) {
  if (name.starts_with("triton_")) {
    return false;  // Inductor names a kernel after the ops whose results it computes with
  }
  if (is_expert_kernel(name) || is_hccl(name)) {
    return true;
  }
  const std::string text = bare(name);
  return std::any_of(k_kernel_marks.begin(), k_kernel_marks.end(),
                     [&](std::string_view mark) { return contains(text, mark); });
}

CommKind kind_of_kernel(std::string_view name) {
  const std::string text = bare(name);
  const auto* const op = std::find_if(k_kernel_ops.begin(), k_kernel_ops.end(),
                                      [&](std::string_view part) { return contains(text, part); });
  if (op != k_kernel_ops.end()) {
    return torch_collective(*op).kind;
  }
  if (contains(text, "crossdevicereduce")) {
    return CommKind::all_reduce;
  }
  if (is_expert_kernel(name) && !contains(text, "notify") &&
      (contains(text, "dispatch") || contains(text, "combine"))) {
    return CommKind::all_to_all;
  }
  if (contains(text, "ncclkernelreduce") || contains(text, "nccldevkernelreduce")) {
    return CommKind::reduce;
  }
  return CommKind::other;
}

std::string_view short_kernel_name(std::string_view name) {
  name = name.substr(0, name.find_first_of("<("));
  if (const std::size_t space = name.rfind(' '); space != std::string_view::npos) {
    name.remove_prefix(space + 1);
  }
  if (const std::size_t colons = name.rfind("::"); colons != std::string_view::npos) {
    name.remove_prefix(colons + 2);
  }
  return name;
}

}  // namespace commlens::formats
