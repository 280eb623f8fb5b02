#include "commlens/app/live_page.hpp"

#include <random>

#include <fmt/format.h>

#include "commlens/app/version.hpp"
#include "commlens/report/web_assets.hpp"

namespace commlens {

LivePage live_page() {
  std::random_device random;
  const std::string mark = fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
  LivePage page;
  page.security_policy = fmt::format(
      "default-src 'none'; connect-src 'self'; img-src data: blob:; script-src 'nonce-{0}'; style-src "
      "'nonce-{0}'; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      mark);
  page.html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>commlens</title>\n<style nonce=\"{}\">\n",
      mark);
  page.html += web_style();
  page.html +=
      "\n</style>\n</head>\n<body>\n<header>\n<h1 id=\"job\">commlens</h1>\n<p class=\"subtitle\" "
      "id=\"subtitle\">"
      "connecting</p>\n</header>\n<main id=\"live\">\n";
  page.html +=
      has_web_script()
          ? "<noscript><p class=\"note\">This page needs a script; /metrics and /api/v1/state have the "
            "same numbers.</p></noscript>\n"
          : "<p class=\"note\">This build of commlens has no page (npm was missing when it was made); "
            "/metrics and /api/v1/state have the numbers.</p>\n";
  page.html += fmt::format("</main>\n<footer>\n<p>commlens {}</p>\n</footer>\n", k_version);
  if (has_web_script()) {
    page.html += fmt::format("<script nonce=\"{}\">", mark);
    page.html += web_script();
    page.html += "</script>\n";
  }
  page.html += "</body>\n</html>\n";
  return page;
}

}  // namespace commlens
