#include <array>

#include "commlens/frameworks/huggingface/framework.hpp"
#include "commlens/frameworks/huggingface/rule_names.hpp"

namespace commlens::huggingface {

std::span<const RuleRow> causes() { return {}; }

}  // namespace commlens::huggingface
