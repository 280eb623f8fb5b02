#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace commlens {

/// gpt: LayerNorm with bias, biases everywhere, 4h MLP. llama: RMSNorm, no biases, gated MLP.
enum class Family : std::uint8_t { gpt, llama };
/// alibi: attention falls with distance (arXiv 2108.12409); sinusoidal: fixed waves are added to the
/// embeddings.
enum class Positions : std::uint8_t { learned, rotary, none, alibi, sinusoidal };
/// What the MLP does between its two projections. gelu: with the error function; gelu_tanh: its approximation
/// by tanh; gelu_sigmoid: by x sigmoid(1.702 x); silu: x sigmoid(x), also called swish.
enum class Activation : std::uint8_t { gelu, gelu_tanh, gelu_sigmoid, relu, silu, mish, softsign };

/// How matrices are drawn. normal: with the deviation of the configuration; scaled_normal: the same / sqrt(2
/// L); small: sqrt(2 / 5h) (arXiv 1910.05895); wang: 2 / (L sqrt(h)); xavier: by the sizes of the matrix
/// (Glorot and Bengio, 2010). Source: gpt-neox megatron/model/init_functions.py.
enum class InitMethod : std::uint8_t { normal, scaled_normal, small, wang, xavier_normal, xavier_uniform };
struct Initialisation {
  InitMethod method = InitMethod::normal;                // embeddings, qkv, fc1, head
  InitMethod output_method = InitMethod::scaled_normal;  // proj and fc2, which end a residual
  double deviation = 0.02;                               // of normal and scaled_normal
};

/// Multi-head latent attention (arXiv 2405.04434): keys and values are products of a vector of `kv_rank` that
/// all heads share, queries of one of `query_rank` (0: of the input).
struct LatentAttention {
  std::int64_t query_rank = 0;
  std::int64_t kv_rank = 0;   // 0: the model has none
  std::int64_t nope_dim = 0;  // of each head's queries and keys, without positions
  std::int64_t rope_dim = 0;  // with them; of keys shared by all heads
  std::int64_t value_dim = 0;
  bool is_used() const { return kv_rank > 0; }
};

/// Architecture of a transformer language model; nothing about how it is split or trained.
struct ModelConfig {
  std::string name;  // "1.3B", or the file it came from
  Family family = Family::gpt;
  std::int64_t layers = 0;         // L
  std::int64_t hidden = 0;         // h
  std::int64_t heads = 0;          // a
  std::int64_t kv_heads = 0;       // key/value heads; equal to heads without grouped-query attention
  std::int64_t head_dim = 0;       // h / a unless the config sets it
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
  double rotary_base = 10'000;   // of the wave lengths of rotary positions
  bool tied_embeddings = false;
  bool parallel_residual =
      false;                // gpt_j_residual: attention and MLP read the same input, one all_reduce less
  bool gated_mlp = false;   // SwiGLU: two input projections
  bool linear_bias = true;  // biases of the projections inside a layer
  bool qkv_bias = true;
  bool norm_bias = true;  // LayerNorm (true) or RMSNorm (false)
  bool final_norm = true;
  double norm_epsilon = 1e-5;                // added to the variance
  Activation activation = Activation::gelu;  // of an MLP that is not gated
  Initialisation initialisation;
  std::int64_t experts = 0;  // 0: dense
  std::int64_t top_k = 0;
  std::int64_t moe_hidden = 0;      // width of an expert; 0: ffn_hidden
  std::int64_t dense_layers = 0;    // the first layers of a mixture, which have an MLP instead
  std::int64_t shared_experts = 0;  // of moe_hidden each, which every token passes
  bool router_bias = false;
  bool qk_norm = false;          // a norm over each head of queries and of keys, head_dim weights each
  bool attention_sinks = false;  // a learned score of each head
  LatentAttention latent;        // instead of queries, keys and values of their own width
  bool has_batch_norm = false;   // of the embeddings: the only module with buffers
  /// Parts of a model by their names in its module tree (docs/frameworks/torch.md): parameters without
  /// gradients and fp32 parameters of a 16-bit model by shell patterns, modules that take no part in the
  /// forward pass by name. Most frameworks have no rules for them.
  std::vector<std::string> frozen = {};
  std::vector<std::string> fp32_patterns = {};
  std::vector<std::string> unused = {};
  std::int64_t expert_hidden() const { return moe_hidden > 0 ? moe_hidden : ffn_hidden; }
  /// The first part that rules of 2024 do not know, by name; empty if there is none.
  std::string_view newer_part() const;
  bool is_whole() const {
    return frozen.empty() && fp32_patterns.empty() && unused.empty() && !has_batch_norm;
  }
};

/// V for tensor parallel degree `tp`: raw_vocab padded to a multiple of vocab_multiple * tp.
/// Source: gpt-neox megatron/tokenizer/tokenizer.py:73 _vocab_size_with_padding.
ModelConfig with_padded_vocab(ModelConfig model, std::int64_t tp);

}  // namespace commlens
