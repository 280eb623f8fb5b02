#include "commlens/model/model_config.hpp"

#include "commlens/base/units.hpp"

namespace commlens {

ModelConfig with_padded_vocab(ModelConfig model, std::int64_t tp) {
  if (model.vocab_is_padded) {
    return model;
  }
  if (model.raw_vocab == 0) {
    model.raw_vocab = model.vocab;
  }
  model.vocab =
      model.vocab_multiple <= 1 ? model.raw_vocab : round_up(model.raw_vocab, model.vocab_multiple * tp);
  return model;
}

std::string_view ModelConfig::newer_part() const {
  if (latent.is_used()) {
    return "multi-head latent attention";
  }
  if (qk_norm) {
    return "norms of queries and keys";
  }
  if (attention_sinks) {
    return "attention sinks";
  }
  if (shared_experts > 0) {
    return "shared experts";
  }
  if (dense_layers > 0) {
    return "dense layers before the experts";
  }
  if (moe_hidden > 0 && moe_hidden != ffn_hidden) {
    return "experts of another width than ffn_hidden";
  }
  return router_bias ? "a bias of the router" : "";
}

}  // namespace commlens
