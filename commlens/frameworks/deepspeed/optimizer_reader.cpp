// The section `optimizer` of a DeepSpeed configuration, as far as it decides the numbers of a training.
#include "commlens/config/map_reader.hpp"
#include "commlens/frameworks/deepspeed/reader.hpp"
#include "commlens/frameworks/recipe_reader.hpp"

namespace commlens::deepspeed {
namespace {

/// Two numbers from 0 to below 1.
void read_betas(MapReader& parameters, TrainingRecipe& recipe) {
  const ConfigNode* betas = parameters.node("betas");
  if (betas == nullptr) {
    return;
  }
  const auto beta = [&](std::size_t index) {
    return betas->items.size() == 2 ? as_number(betas->items[index]).value_or(-1) : -1;
  };
  for (const std::size_t index : {0U, 1U}) {
    if (!(beta(index) >= 0 && beta(index) < 1)) {
      parameters.fail("betas", "must be two numbers from 0 to below 1");
      return;
    }
  }
  recipe.beta1 = beta(0);
  recipe.beta2 = beta(1);
}

}  // namespace

Result<void> read_optimizer_section(MapReader& settings, TrainingRecipe& recipe) {
  const ConfigNode* section = settings.map("optimizer");
  if (section == nullptr) {
    return {};
  }
  const ConfigNode* type = find(*section, "type");
  if (type != nullptr && type->kind == ConfigNode::Kind::scalar) {
    note_other_optimizer("optimizer.type", type->text, recipe);
  }
  const ConfigNode* params = find(*section, "params");
  if (params == nullptr || params->kind != ConfigNode::Kind::map) {
    return {};
  }
  std::vector<std::string> ignored;  // what no message depends on has no unknown keys
  MapReader reader(*params, {ignored, ignored});
  read_within(reader, "lr", {}, recipe.learning_rate);
  read_betas(reader, recipe);
  read_within(reader, "eps", {}, recipe.epsilon);
  read_within(reader, "weight_decay", {}, recipe.weight_decay);
  return reader.finish();
}

}  // namespace commlens::deepspeed
