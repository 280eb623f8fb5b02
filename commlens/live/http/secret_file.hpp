#pragma once
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"

namespace commlens {

/// The one line of visible ASCII of a file, without its end. `what` names it in messages: "a token". Fails
/// where others than the owner may read the file, which must be a regular one of 4 KiB at most.
Result<std::string> read_secret_file(const std::string& file, std::string_view what);

}  // namespace commlens
