#include "commlens/cli/familiar_flags.hpp"

#include <algorithm>
#include <cctype>

namespace commlens {
namespace {

/// What other programs call an option, and what to write here; of rows with the same name, the first one with
/// an option that the verb has.
struct FamiliarFlags {
  std::string_view names;
  std::string_view meant;
};
constexpr std::string_view k_processes =
    "--world-size --nproc --nprocs --num-processes --num-gpus --n-gpus --gpus -np -n";
constexpr std::string_view k_nodes = "--nnodes --nodes --num-nodes";
constexpr std::string_view k_per_node =
    "--nproc-per-node --num-gpus-per-node --ngpus-per-node --n-gpus-per-node --devices-per-node "
    "--ntasks-per-node --gpus-per-host";
constexpr FamiliarFlags k_familiar[] = {
    {"--seq-len --seq-length --seqlen --sequence-length --max-seq-len --max-seq-length --context-length "
     "--max-position-embeddings --block-size",
     "--seq"},
    {"--global-batch-size --train-batch-size --gbs", "--global-batch"},
    {"--micro-batch-size --mbs --batch-size --local-batch-size --per-device-train-batch-size "
     "--train-micro-batch-size-per-gpu",
     "--micro-batch"},
    {"--gradient-accumulation-steps --grad-accum --gas --num-microbatches --num-micro-batches",
     "--micro-batches"},
    {"--tensor-model-parallel-size --tensor-parallel-size --tensor-parallel-degree --tensor-parallel "
     "--model-parallel-size --tp-size",
     "--tp"},
    {"--pipeline-model-parallel-size --pipeline-parallel-size --pipeline-parallel-degree --pipeline-parallel "
     "--pipe-parallel-size --pp-size",
     "--pp"},
    {"--context-parallel-size --context-parallel-degree --context-parallel --cp-size", "--cp"},
    {"--expert-model-parallel-size --expert-parallel-size --expert-parallel-degree --expert-parallel "
     "--ep-size",
     "--ep"},
    {"--data-parallel-size --data-parallel --dp-size", "--dp"},
    {"--sequence-parallel", "--sp on"},
    {"--zero-stage --stage", "--zero"},
    {k_processes, "--ranks"},
    {"--world-size --ranks --num-gpus --n-gpus -n", "--gpus"},
    {k_nodes, "--ranks (nodes x GPUs of a node)"},
    {k_nodes, "--gpus (nodes x GPUs of a node)"},
    {k_per_node, "--gpus-per-node (all GPUs: --ranks)"},
    {k_per_node, "--ranks (nodes x GPUs of a node)"},
    {k_per_node, "--gpus (nodes x GPUs of a node)"},
    {"--bf16 --bfloat16", "--dtype bf16"},
    {"--bf16 --bfloat16", "--precision bf16"},
    {"--fp16 --half --float16", "--dtype fp16"},
    {"--fp32 --float32", "--dtype fp32"},
    {"--torch-dtype --precision --params-dtype", "--dtype"},
    {"--num-layers --num-hidden-layers --n-layers --n-layer", "--layers"},
    {"--hidden-size --n-embd --d-model --dim", "--hidden"},
    {"--num-attention-heads --num-heads --n-heads --n-head", "--heads"},
    {"--vocab-size --padded-vocab-size", "--vocab"},
    {"--train-iters --max-steps --steps --num-iters --iters", "--iterations"},
    {"--recompute-granularity --recompute-activations --activation-checkpointing --gradient-checkpointing "
     "--checkpoint-activations",
     "--recompute"},
    {"--use-flash-attn --flash-attention --flash", "--attention flash"},
    {"--num-virtual-stages --virtual-pipeline-model-parallel-size --num-virtual-stages-per-pipeline-rank",
     "--virtual-stages"},
    {"--pipeline-schedule --pipeline-parallel-schedule", "--schedule"},
    {"--bucket-cap-mb --bucket-size --reduce-bucket-size --ddp-bucket-size", "--bucket"},
    {"--clip-grad --max-grad-norm --max-norm --gradient-clipping --grad-clip", "--clip"},
    {"--json", "--format json"},
    {"--csv", "--format csv"},
    {"--out --out-dir --output-dir --output-file", "--output"}};

bool has_name(std::string_view names, std::string_view name) {
  for (std::size_t at = names.find(name); at != std::string_view::npos; at = names.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || names[at - 1] == ' ') && (end == names.size() || names[end] == ' ')) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string familiar_flag(std::string_view name, const std::function<bool(std::string_view)>& has) {
  std::string spelled(name);
  std::transform(spelled.begin(), spelled.end(), spelled.begin(), [](unsigned char letter) {
    return letter == '_' ? '-' : static_cast<char>(std::tolower(letter));
  });
  for (const FamiliarFlags& row : k_familiar) {
    if (has_name(row.names, spelled) && has(row.meant.substr(0, row.meant.find(' ')))) {
      return std::string(row.meant);
    }
  }
  return "";
}

}  // namespace commlens
