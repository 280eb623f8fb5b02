#pragma once
#include <cstdint>
#include <string>

namespace commlens {

/// gpt: LayerNorm with bias, biases everywhere, 4h MLP. llama: RMSNorm, no biases, gated MLP.
enum class Family : std::uint8_t { gpt, llama };
enum class Positions : std::uint8_t { learned, rotary, none };

/// Architecture of a transformer language model; nothing about how it is split or trained.
struct ModelConfig {
  std::string name;  // "1.3B", or the file it came from
  Family family = Family::gpt;
  std::int64_t layers = 0;         // L
  std::int64_t hidden = 0;         // h
  std::int64_t heads = 0;          // a
  std::int64_t kv_heads = 0;       // key/value heads; equal to heads without grouped-query attention
  std::int64_t head_dim = 0;       // h / a unless the config says otherwise
  std::int64_t ffn_hidden = 0;     // width of the MLP; 4h for gpt
  std::int64_t sequence = 0;       // s
  std::int64_t max_positions = 0;  // rows of the learned position table
  std::int64_t vocab = 0;      // V as the parameter tables have it, padding included (see with_padded_vocab)
  std::int64_t raw_vocab = 0;  // tokens of the tokenizer, before padding
  std::int64_t vocab_multiple = 1;  // V is padded to a multiple of this times tp; 1 = as it is
  bool vocab_is_padded = false;     // `vocab` is given as padded: leave it
  bool vocab_is_assumed = false;    // the configuration names a tokenizer whose vocabulary is not known
  Positions positions = Positions::rotary;
  double rotary_fraction = 1.0;  // part of each head that rotary positions turn (rotary_pct), 0 to 1
  bool tied_embeddings = false;
  bool parallel_residual =
      false;                // gpt_j_residual: attention and MLP read the same input, one all_reduce less
  bool gated_mlp = false;   // SwiGLU: two input projections
  bool linear_bias = true;  // biases of the projections inside a layer
  bool qkv_bias = true;
  bool norm_bias = true;  // LayerNorm (true) or RMSNorm (false)
  bool final_norm = true;
  std::int64_t experts = 0;  // 0: dense
  std::int64_t top_k = 0;
};

/// V for tensor parallel degree `tp`: raw_vocab padded to a multiple of vocab_multiple * tp.
/// Source: gpt-neox megatron/tokenizer/tokenizer.py:73 _vocab_size_with_padding.
ModelConfig with_padded_vocab(ModelConfig model, std::int64_t tp);

}  // namespace commlens
