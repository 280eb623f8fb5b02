#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "commlens/engine/torch.hpp"
#include "commlens/transport/communicator.hpp"

namespace commlens::engine {

/// Our name for a tensor's element type; throws SystemError for one that no communicator moves.
DType dtype_of(const torch::Tensor& tensor);
torch::ScalarType scalar_type_of(DType dtype);

/// A collective under way that keeps its tensors alive.
class TensorWork {
 public:
  TensorWork() = default;
  TensorWork(std::unique_ptr<Work> work, torch::Tensor input, torch::Tensor output);
  /// Returns once the output may be read. Nothing happens on an empty or waited-for one.
  void wait();

 private:
  torch::Tensor input_;
  torch::Tensor output_;
  std::unique_ptr<Work> work_;  // destroyed before the memory that it uses
};

/// When a call is complete: with the TensorWork's wait(), or already when the function returns (the
/// TensorWork is empty then), which is cheaper than to wait at once.
enum class Completion : std::uint8_t { later, now };

/// Calls on contiguous tensors. On a group of one rank nothing is called: the input is copied to the output
/// where they differ.
TensorWork all_reduce(Communicator& group, const torch::Tensor& tensor, std::string_view tag,
                      Completion completion = Completion::later,
                      ReduceOp reduction = ReduceOp::sum);  // in place
TensorWork all_gather(Communicator& group, const torch::Tensor& shard, const torch::Tensor& whole,
                      std::string_view tag, Completion completion = Completion::later);
TensorWork reduce_scatter(Communicator& group, const torch::Tensor& whole, const torch::Tensor& shard,
                          std::string_view tag, Completion completion = Completion::later);
/// These two are complete when they return.
void all_to_all(Communicator& group, const torch::Tensor& input, const torch::Tensor& output,
                std::string_view tag);
void recv(Communicator& group, const torch::Tensor& tensor, GroupRank from, std::string_view tag);
TensorWork send(Communicator& group, const torch::Tensor& tensor, GroupRank to, std::string_view tag);

}  // namespace commlens::engine
