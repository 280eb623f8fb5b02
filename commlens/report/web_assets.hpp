#pragma once
#include <string_view>

namespace commlens {

/// The program of the report's interactive page: web/src, bundled and minified at build time. Pure ASCII, and
/// without "</script" or "<!--", so that it can be embedded in a <script> element unchanged. Empty where the
/// build had no npm.
std::string_view web_script();

/// The page's style sheet, without "</style". Minified by the same build step; the plain file of web/src
/// where there was no npm. Never empty: it is what makes the page's tables readable without a script.
std::string_view web_style();

/// Whether web_script() has anything to run: without, a report has its tables only, and says so.
bool has_web_script();

}  // namespace commlens
