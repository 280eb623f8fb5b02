#include "commlens/frameworks/megatron/batches.hpp"

#include "commlens/frameworks/megatron/source.hpp"

namespace commlens::megatron {
namespace {

const Rule k_batch{"megatron.batch", k_new_source<"core/utils.py:2184">};

using EmptyPackings = Behaviour::EmptyPackings;

/// The broadcasts of one batch.
class BatchWriter {
 public:
  explicit BatchWriter(const StageContext& stage)
      : stage_(stage), tokens_(stage.job.train.micro_batch * stage.job.model.sequence) {}

  /// All of a batch, tokens and labels.
  void whole() const {
    integers("tokens");
    integers("labels");
    loss_mask();
    mask_ahead();
    integers("position ids");
    packings(packings_of_tokens());
    mask_behind();
  }
  void first() const {
    integers("tokens");
    mask_ahead();
    integers("position ids");
    packings(packings_of_tokens());
    mask_behind();
  }
  void last() const {
    integers("labels");
    loss_mask();
    mask_ahead();
    packings(stage_.behaviour.empty_packings == EmptyPackings::two ? 1 : 0);
    mask_behind();
  }
  /// A stage of a pipeline with multi-token prediction, of older releases.
  void predicting() const {
    integers("tokens");
    integers("position ids");
    integers("labels");
    loss_mask();
    mask();
  }

 private:
  void send(Elements count, DType dtype, std::string_view tag) const {
    stage_.out.broadcast({stage_.groups.tp, GroupRank{0}}, count, dtype, k_batch, tag);
  }
  void integers(std::string_view tag) const { send({tokens_}, DType::int64, tag); }
  void loss_mask() const { send({tokens_}, DType::fp32, "loss mask"); }
  void mask() const {
    if (stage_.options.has_attention_mask) {
      send({tokens_ * stage_.job.model.sequence}, DType::boolean, "attention mask");
    }
  }
  void mask_ahead() const {
    if (!stage_.behaviour.mask_is_last) {
      mask();
    }
  }
  void mask_behind() const {
    if (stage_.behaviour.mask_is_last) {
      mask();
    }
  }
  int packings_of_tokens() const {
    switch (stage_.behaviour.empty_packings) {
      case EmptyPackings::none:
        return 0;
      case EmptyPackings::one:
        return 1;
      case EmptyPackings::two:
        return 2;
    }
    return 0;
  }
  /// The description of packed sequences, of which there are none.
  void packings(int count) const {
    for (int i = 0; i < count; ++i) {
      send({1}, DType::int64, "length of packed sequences");
      send({0}, DType::int32, "packed sequences");
    }
  }

  const StageContext& stage_;
  std::int64_t tokens_;
};

}  // namespace

void write_batch(const StageContext& stage, std::size_t chunk) {
  if (!stage.has_script()) {
    return;
  }
  const BatchWriter batch(stage);
  const ChunkLayout& layout = stage.chunks[chunk];
  const bool every = stage.behaviour.every_chunk_takes_batches;
  const bool is_first = every ? stage.is_first() : layout.has_embedding;
  const bool is_last = every ? stage.is_last() : layout.has_loss;
  if (stage.job.layout.pp == 1 || (layout.mtp_layers > 0 && stage.behaviour.mtp_batch_is_whole)) {
    batch.whole();
  } else if (layout.mtp_layers > 0) {
    batch.predicting();
  } else if (is_first) {
    batch.first();
  } else if (is_last) {
    batch.last();
  }
}

}  // namespace commlens::megatron
