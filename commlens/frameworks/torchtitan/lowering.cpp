#include "commlens/frameworks/torchtitan/lowering.hpp"

#include "commlens/frameworks/torch/schedules.hpp"
#include "commlens/frameworks/torchtitan/options.hpp"

namespace commlens::torchtitan {

void prepare(Job& job) {
  job.layout.folds_experts = true;
  job.layout.expert_replicas = options(job).replicate;
}

void lower(Job& job) {
  const Options& own = options(job);
  pytorch::Options& torch = pytorch::options(job);
  torch = {};
  torch.release = own.torch_version;
  torch.data_shard = job.layout.dp / own.replicate;
  torch.fsdp.is_used = true;  // also of one rank, for its dtypes
  torch.fsdp.param_dtype = own.param_dtype;
  torch.fsdp.reduce_dtype = DType::fp32;
  torch.fsdp.divide_factor = 1.0;  // the loss is divided by the tokens of all ranks
  torch.fsdp.is_offloaded = own.is_offloaded;
  torch.trainer.clip = true;
  torch.pipeline.schedule = own.schedule;
  job.train.schedule = pytorch::usual_schedule(own.schedule);
}

}  // namespace commlens::torchtitan
