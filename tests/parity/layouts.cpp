#include "parity/layouts.hpp"

#include <utility>

#include "commlens/frameworks/commlens/options.hpp"

namespace commlens::engine {

Job job_of(const Layout& layout) {
  Job job = tiny_job_of(layout);
  layout.both(job);
  layout.change(job);
  return job;
}

void sequence_parallel(Job& job) { job.layout.sequence_parallel = true; }
void gpipe(Job& job) { job.train.schedule = Schedule::gpipe; }
void interleaved(Job& job) {
  job.train.schedule = Schedule::interleaved;
  job.layout.virtual_stages = 2;
}
void full(Job& job) { job.train.recompute = Recompute::full; }
void selective(Job& job) { job.train.recompute = Recompute::selective; }
void deepspeed_like(Job& job) { trainer::options(job).all_reduce_gradients = true; }
void partitioned(Job& job) {
  full(job);
  job.train.partition_activations = true;
}
void tied(Job& job) { job.model.tied_embeddings = true; }
void gptj(Job& job) { job.model.parallel_residual = true; }
void alibi(Job& job) { job.model.positions = Positions::alibi; }
void learned(Job& job) { job.model.positions = Positions::learned; }
void clipped(Job& job) { job.train.gradient_clipping = 0.5; }
void bf16(Job& job) { job.train.dtype = DType::bf16; }
void fp16(Job& job) { job.train.dtype = DType::fp16; }
void hpz2(Job& job) { job.train.hpz = 2; }
void qwz(Job& job) { job.train.quantized_weights = true; }
void hpz4(Job& job) { job.train.hpz = 4; }
void one_byte_buckets(Job& job) { trainer::options(job).bucket = Bytes{1}; }
void one_bucket(Job& job) { trainer::options(job).bucket = Bytes{1LL << 40}; }
void all_persistent(Job& job) { job.train.persistence_threshold = 1LL << 40; }
void none_persistent(Job& job) { job.train.persistence_threshold = 0; }
void six_layers(Job& job) { job.model.layers = 6; }
void eight_layers(Job& job) { job.model.layers = 8; }
void one_layer(Job& job) { job.model.layers = 1; }
void padded_vocabulary(Job& job) { job.model.raw_vocab = 100; }
/// 101 tokens: padded to 102 with tp 2, to 104 with tp 4 and 8.
void ragged_vocabulary(Job& job) {
  job.model.vocab = job.model.raw_vocab = 101;
  job.model.vocab_is_padded = false;
}
/// 100 tokens, padded as GPT-NeoX does to a multiple of 128 tp: most of the tensor ranks hold padding only.
void mostly_padding(Job& job) {
  job.model.raw_vocab = 100;
  job.model.vocab_is_padded = false;
  job.model.vocab_multiple = 128;
}
void eight_heads(Job& job) {
  job.model.heads = job.model.kv_heads = 8;
  job.model.head_dim = 4;
}
void more_positions(Job& job) {
  learned(job);
  job.model.max_positions = 24;
}
void qgz(Job& job) { job.train.quantized_gradients = true; }

std::function<void(Job&)> all(std::vector<void (*)(Job&)> changes) {
  return [changes = std::move(changes)](Job& job) {
    for (const auto& change : changes) {
      change(job);
    }
  };
}

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> list = {
      // One scheme at a time.
      {.name = "ddp2", .dp = 2},
      {.name = "ddp4", .dp = 4},
      {.name = "ddp8_clip", .dp = 8, .both = clipped},
      {.name = "accumulation", .micro_batches = 4},
      {.name = "ddp2_accumulation", .dp = 2, .micro_batches = 4},
      {.name = "zero1", .dp = 4, .zero = 1},
      {.name = "zero1_deepspeed_like", .dp = 4, .zero = 1, .change = deepspeed_like},
      {.name = "zero2", .dp = 4, .zero = 2},
      {.name = "zero2_accumulation", .dp = 2, .zero = 2, .micro_batches = 2},
      {.name = "zero2_deepspeed_like", .dp = 2, .zero = 2, .micro_batches = 2, .change = deepspeed_like},
      {.name = "zero3", .dp = 4, .zero = 3},
      {.name = "zero3_odd", .dp = 8, .zero = 3, .both = clipped},
      {.name = "zero3_accumulation", .dp = 2, .zero = 3, .micro_batches = 2},
      {.name = "zero3_hpz", .dp = 4, .zero = 3, .change = hpz2},
      {.name = "zero3_hpz_accumulation", .dp = 4, .zero = 3, .micro_batches = 2, .change = hpz2},
      {.name = "zero3_qwz", .dp = 4, .zero = 3, .change = qwz, .tolerance = k_quantized_tolerance},
      {.name = "zero3_qgz", .dp = 4, .zero = 3, .change = qgz, .tolerance = k_quantized_tolerance},
      {.name = "zero3_qgz_hpz",
       .dp = 4,
       .zero = 3,
       .change = all({hpz2, qgz}),
       .tolerance = k_quantized_tolerance},
      {.name = "zero3_plus_plus",
       .dp = 4,
       .zero = 3,
       .change = all({hpz2, qgz, qwz}),
       .tolerance = k_quantized_tolerance},
      {.name = "tp2", .tp = 2},
      {.name = "tp4", .tp = 4, .both = clipped},
      {.name = "tp2_sp", .tp = 2, .change = sequence_parallel},
      {.name = "tp4_sp", .tp = 4, .change = sequence_parallel, .both = clipped},
      {.name = "pp2", .pp = 2, .micro_batches = 4},
      {.name = "pp4", .pp = 4, .micro_batches = 4, .both = clipped},
      {.name = "pp2_gpipe", .pp = 2, .micro_batches = 4, .change = gpipe},
      {.name = "pp2_interleaved", .pp = 2, .micro_batches = 4, .change = interleaved},
      {.name = "recompute_full", .change = full},
      {.name = "recompute_selective", .change = selective},
      // Models.
      {.name = "gptj_ddp2", .dp = 2, .both = gptj},
      {.name = "gptj_tp2", .tp = 2, .both = gptj},
      {.name = "gptj_tp2_sp", .tp = 2, .change = sequence_parallel, .both = gptj},
      {.name = "tied_ddp2", .dp = 2, .both = tied},
      {.name = "tied_tp2", .tp = 2, .both = tied},
      {.name = "tied_pp2", .pp = 2, .micro_batches = 2, .both = all({tied, clipped})},
      {.name = "tied_zero3", .dp = 4, .zero = 3, .both = tied},
      {.name = "tied_pp2_zero1",
       .dp = 2,
       .pp = 2,
       .zero = 1,
       .micro_batches = 2,
       .both = all({tied, clipped})},
      {.name = "tied_pp2_zero3", .dp = 2, .pp = 2, .zero = 3, .micro_batches = 2, .both = tied},
      {.name = "learned_tp2_sp", .tp = 2, .change = sequence_parallel, .both = learned},
      {.name = "learned_zero2", .dp = 2, .zero = 2, .both = learned},
      // Products.
      {.name = "zero3_tp2", .dp = 2, .tp = 2, .zero = 3},
      {.name = "zero3_tp2_sp_full", .dp = 2, .tp = 2, .zero = 3, .change = all({sequence_parallel, full})},
      {.name = "tp2_pp2", .tp = 2, .pp = 2, .micro_batches = 2},
      {.name = "tp2_sp_pp2_dp2",
       .dp = 2,
       .tp = 2,
       .pp = 2,
       .micro_batches = 2,
       .change = sequence_parallel,
       .both = clipped},
      {.name = "tp2_pp2_dp2_zero1",
       .dp = 2,
       .tp = 2,
       .pp = 2,
       .zero = 1,
       .micro_batches = 2,
       .both = clipped},
      {.name = "zero2_pp2", .dp = 2, .pp = 2, .zero = 2, .micro_batches = 4},
      {.name = "zero3_pp2", .dp = 2, .pp = 2, .zero = 3, .micro_batches = 4},
      {.name = "zero3_tp2_pp2_interleaved",
       .dp = 2,
       .tp = 2,
       .pp = 2,
       .zero = 3,
       .micro_batches = 4,
       .change = interleaved},
      {.name = "interleaved_ddp2", .dp = 2, .pp = 2, .micro_batches = 4, .change = interleaved},
      {.name = "interleaved_zero2", .dp = 2, .pp = 2, .zero = 2, .micro_batches = 4, .change = interleaved},
      {.name = "zero3_full_hpz", .dp = 4, .zero = 3, .micro_batches = 2, .change = all({full, hpz2})},
      {.name = "tp2_partitioned", .tp = 2, .change = partitioned},
      {.name = "tp2_pp2_partitioned", .tp = 2, .pp = 2, .micro_batches = 2, .change = partitioned},
      {.name = "tp2_selective_zero1", .dp = 2, .tp = 2, .zero = 1, .change = selective},
      {.name = "gptj_tp2_sp_pp2_full",
       .tp = 2,
       .pp = 2,
       .micro_batches = 2,
       .change = all({sequence_parallel, full}),
       .both = gptj},
      // Corners.
      {.name = "zero3_alone", .zero = 3},
      {.name = "zero3_alone_tp2_accumulation", .tp = 2, .zero = 3, .micro_batches = 2, .change = full},
      {.name = "zero3_alone_pp2_tied", .pp = 2, .zero = 3, .micro_batches = 2, .both = all({tied, clipped})},
      {.name = "zero3_alone_qwz_qgz", .zero = 3, .micro_batches = 2, .change = all({qwz, qgz})},
      {.name = "zero1_alone", .zero = 1, .micro_batches = 2},
      {.name = "zero2_alone", .zero = 2, .micro_batches = 2, .both = tied},
      {.name = "zero2_one_byte_buckets", .dp = 4, .zero = 2, .micro_batches = 2, .change = one_byte_buckets},
      {.name = "zero2_one_bucket",
       .dp = 4,
       .zero = 2,
       .micro_batches = 2,
       .change = one_bucket,
       .both = tied},
      {.name = "zero1_one_byte_buckets_tied", .dp = 8, .zero = 1, .change = one_byte_buckets, .both = tied},
      {.name = "ddp_one_bucket", .dp = 2, .micro_batches = 2, .change = one_bucket},
      {.name = "zero3_all_persistent", .dp = 4, .zero = 3, .micro_batches = 2, .change = all_persistent},
      {.name = "zero3_all_persistent_tied", .dp = 2, .zero = 3, .change = all_persistent, .both = tied},
      {.name = "zero3_all_persistent_pp2_tied",
       .dp = 2,
       .pp = 2,
       .zero = 3,
       .micro_batches = 2,
       .change = all_persistent,
       .both = all({tied, clipped})},
      {.name = "zero3_none_persistent", .dp = 4, .zero = 3, .micro_batches = 2, .change = none_persistent},
      {.name = "zero3_hpz_is_dp", .dp = 4, .zero = 3, .micro_batches = 2, .change = hpz4},
      {.name = "zero3_plus_plus_hpz_is_dp",
       .dp = 4,
       .zero = 3,
       .change = all({hpz4, qgz, qwz}),
       .tolerance = k_quantized_tolerance},
      {.name = "zero3_plus_plus_tied_pp2",
       .dp = 4,
       .pp = 2,
       .zero = 3,
       .micro_batches = 2,
       .change = all({hpz2, qgz, qwz, full}),
       .both = tied,
       .tolerance = k_quantized_tolerance},
      {.name = "pp4_uneven", .pp = 4, .micro_batches = 4, .both = six_layers},
      {.name = "pp4_interleaved", .pp = 4, .micro_batches = 8, .change = interleaved, .both = eight_layers},
      {.name = "pp2_gpipe_zero3_tied",
       .dp = 2,
       .pp = 2,
       .zero = 3,
       .micro_batches = 4,
       .change = gpipe,
       .both = all({tied, clipped})},
      {.name = "pp4_fewer_micro_batches", .pp = 4, .micro_batches = 2},
      {.name = "one_layer_zero3_tied",
       .dp = 2,
       .zero = 3,
       .micro_batches = 2,
       .both = all({tied, one_layer})},
      {.name = "padded_vocabulary_tp4_sp", .tp = 4, .change = sequence_parallel, .both = padded_vocabulary},
      {.name = "ragged_vocabulary_tp2", .tp = 2, .both = ragged_vocabulary},
      {.name = "ragged_vocabulary_tp4_sp", .tp = 4, .change = sequence_parallel, .both = ragged_vocabulary},
      {.name = "ragged_vocabulary_tp8_tied", .tp = 8, .both = all({ragged_vocabulary, eight_heads, tied})},
      {.name = "mostly_padding_tp8", .tp = 8, .both = all({mostly_padding, eight_heads, clipped})},
      {.name = "more_positions_tp2_sp_zero3",
       .dp = 2,
       .tp = 2,
       .zero = 3,
       .change = sequence_parallel,
       .both = all({more_positions, clipped})},
      {.name = "more_positions_tp2_sp_pp2_full_zero2",
       .dp = 2,
       .tp = 2,
       .pp = 2,
       .zero = 2,
       .micro_batches = 2,
       .change = all({sequence_parallel, full}),
       .both = all({more_positions, tied, clipped})},
      {.name = "tp2_partitioned_zero3_pp2",
       .dp = 2,
       .tp = 2,
       .pp = 2,
       .zero = 3,
       .micro_batches = 2,
       .change = partitioned,
       .both = gptj},
      // bf16.
      {.name = "bf16_ddp2", .dp = 2, .both = bf16, .tolerance = k_bf16_tolerance},
      {.name = "bf16_zero3", .dp = 4, .zero = 3, .both = bf16, .tolerance = k_bf16_tolerance},
      {.name = "fp16_ddp2", .dp = 2, .both = fp16, .tolerance = k_fp16_tolerance},
      {.name = "fp16_tp2", .tp = 2, .both = all({fp16, tied, clipped}), .tolerance = k_fp16_tolerance},
      {.name = "fp16_tp2_sp",
       .tp = 2,
       .change = sequence_parallel,
       .both = all({fp16, learned}),
       .tolerance = k_fp16_tolerance},
      {.name = "fp16_zero1_pp2",
       .dp = 2,
       .pp = 2,
       .zero = 1,
       .micro_batches = 2,
       .change = full,
       .both = fp16,
       .tolerance = k_fp16_tolerance},
      {.name = "fp16_zero3_hpz",
       .dp = 4,
       .zero = 3,
       .micro_batches = 2,
       .change = hpz2,
       .both = all({fp16, clipped}),
       .tolerance = k_fp16_tolerance},
      {.name = "bf16_zero1_tp2_sp_pp2",
       .dp = 2,
       .tp = 2,
       .pp = 2,
       .zero = 1,
       .micro_batches = 2,
       .change = sequence_parallel,
       .both = bf16,
       .tolerance = k_bf16_tolerance},
  };
  return list;
}

}  // namespace commlens::engine
