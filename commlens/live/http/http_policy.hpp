#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "commlens/live/http/http_server.hpp"

namespace commlens {

/// A reply in plain text; `text` ends its line.
HttpReply refusal(int status, std::string text);

/// The refusal of a request that no handler should see: another method than GET and HEAD (405); over
/// loopback, a Host that is no name of this machine, as a page of another site sends after it has rebound its
/// own name (421); a token that is missing or wrong (401), except for `/` and `/healthz`, which tell nothing.
std::optional<HttpReply> refusal_of(const HttpRequest& request, const HttpSettings& settings);

/// In a time that depends on the lengths alone.
bool are_equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace commlens
