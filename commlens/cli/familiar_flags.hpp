#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace commlens {

/// What to write for an option that other programs have under this name: "--seq" for "--seq-len", "--dtype
/// bf16" for "--bf16"; empty if there is nothing that the verb has.
///   has  whether the verb has the option "--name"
std::string familiar_flag(std::string_view name, const std::function<bool(std::string_view)>& has);

}  // namespace commlens
