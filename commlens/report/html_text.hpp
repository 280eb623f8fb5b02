#pragma once
#include <string>
#include <string_view>

namespace commlens {

/// Text for HTML, between tags or inside a quoted attribute: special characters are escaped, invalid UTF-8
/// and characters that change the text direction become U+FFFD, control characters their pictures (U+2400 …).
std::string html_text(std::string_view text);

}  // namespace commlens
