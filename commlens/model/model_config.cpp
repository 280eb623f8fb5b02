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

}  // namespace commlens
