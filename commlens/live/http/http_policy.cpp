#include "commlens/live/http/http_policy.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace commlens {
namespace {

/// The name of a header Host, without its port: an ssh tunnel has one of its own.
std::string_view host_name_of(std::string_view host) {
  if (!host.empty() && host.front() == '[') {
    const std::size_t end = host.find(']');
    return end == std::string_view::npos ? std::string_view() : host.substr(0, end + 1);
  }
  return host.substr(0, host.find(':'));
}

bool is_of_this_machine(std::string_view host) {
  const std::string_view name = host_name_of(host);
  return name == "localhost" || name == "[::1]" || is_loopback(name);
}

/// What follows "Bearer ", in any case; empty where another scheme is used.
std::string_view shown_token(std::string_view authorization) {
  constexpr std::string_view scheme = "bearer ";
  if (authorization.size() < scheme.size()) {
    return {};
  }
  const bool is_bearer =
      std::equal(scheme.begin(), scheme.end(), authorization.begin(), [](char wanted, char given) {
        return wanted == (given >= 'A' && given <= 'Z' ? static_cast<char>(given - 'A' + 'a') : given);
      });
  return is_bearer ? authorization.substr(scheme.size()) : std::string_view();
}

}  // namespace

HttpReply refusal(int status, std::string text) {
  HttpReply reply;
  reply.status = status;
  reply.body = std::make_shared<const std::string>(std::move(text));
  return reply;
}

bool are_equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0U : 1U;
  for (std::size_t at = 0; at < a.size() && at < b.size(); ++at) {
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(a[at]) ^ static_cast<unsigned char>(b[at]));
  }
  return difference == 0;
}

std::optional<HttpReply> refusal_of(const HttpRequest& request, const HttpSettings& settings) {
  if (request.method != "GET" && request.method != "HEAD") {
    return refusal(405, "only GET and HEAD: nothing here can be changed\n");
  }
  if (is_loopback(settings.address) && !is_of_this_machine(request.host)) {
    return refusal(421, "this server answers as localhost alone\n");
  }
  const bool tells_nothing = request.path == "/" || request.path == "/healthz";
  if (!settings.token.empty() && !tells_nothing &&
      !are_equal_in_constant_time(shown_token(request.authorization), settings.token)) {
    return refusal(401, "show the token: Authorization: Bearer TOKEN\n");
  }
  return std::nullopt;
}

}  // namespace commlens
