#include "commlens/app/serve.hpp"

#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "commlens/app/live_site.hpp"

namespace commlens {
namespace {

std::string address_of(const HttpSettings& settings, std::uint16_t port) {
  const bool is_six = settings.address.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}/", is_six ? "[" : "", settings.address, is_six ? "]" : "", port);
}

}  // namespace

Result<WatchResult> serve(const ServeRequest& request) {
  if (!is_loopback(request.listen.address) && request.listen.token.empty()) {
    return failure(
        fmt::format("--listen {}: other machines reach this address; protect it with --token-file, or listen "
                    "on 127.0.0.1 and use ssh -L",
                    request.listen.address));
  }
  LiveSite site(request.metrics, request.watch.interval);
  return start_http_server(request.listen, site).and_then([&](const std::unique_ptr<HttpServer>& server) {
    WatchRequest watched = request.watch;
    bool is_started = false;
    watched.polled = [&](const JobView& view, std::span<const WatchEvent> events) {
      server->publish(site.show(view, events));
      if (!std::exchange(is_started, true) && request.started) {
        request.started(address_of(request.listen, server->port()));
      }
      if (request.watch.polled) {
        request.watch.polled(view, events);
      }
    };
    return watch(watched);
  });
}

}  // namespace commlens
