#pragma once
#include <string>

namespace commlens {

struct LivePage {
  std::string html;  // self-contained
  std::string
      security_policy;  // for the header: its own script and style alone, and requests to where it is from
};

/// The page of `serve`: web/src/live.ts draws what `/events` tells. Each has marks of its own for its script
/// and style, so that no other can run in it.
LivePage live_page();

}  // namespace commlens
