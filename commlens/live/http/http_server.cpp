#include "commlens/live/http/http_server.hpp"

#include <charconv>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include "commlens/live/http/live_module.hpp"
#include "commlens/live/http/secret_file.hpp"

namespace commlens {

bool is_loopback(std::string_view address) {
  const std::string text(address);
  in_addr four{};
  if (inet_pton(AF_INET, text.c_str(), &four) == 1) {
    constexpr std::uint32_t loopback = 127;
    return ntohl(four.s_addr) >> 24U == loopback;
  }
  in6_addr six{};
  return inet_pton(AF_INET6, text.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

Result<HttpSettings> parse_listen(std::string_view text) {
  const auto bad = [&] {
    return failure(fmt::format(
        "--listen {}: give a numeric address and a port up to 65535, as in 127.0.0.1:9464 or [::1]:9464",
        text));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return bad();
  }
  std::string_view address = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool is_six = address.size() > 2 && address.front() == '[' && address.back() == ']';
  if (is_six) {
    address = address.substr(1, address.size() - 2);
  }
  HttpSettings settings;
  settings.address = address;
  const auto [end, wrong] = std::from_chars(port.data(), port.data() + port.size(), settings.port);
  in6_addr place{};
  if (wrong != std::errc() || end != port.data() + port.size() ||
      inet_pton(is_six ? AF_INET6 : AF_INET, settings.address.c_str(), &place) != 1) {
    return bad();
  }
  return settings;
}

Result<std::string> read_token(const std::string& file) {
  constexpr std::size_t fewest = 32;
  return read_secret_file(file, "a token").and_then([&](std::string text) -> Result<std::string> {
    if (text.size() < fewest) {
      return failure(
          fmt::format("{}: a token has at least {} characters, this one {}; openssl rand -hex 32 > {}", file,
                      fewest, text.size(), file));
    }
    return text;
  });
}

Result<std::unique_ptr<HttpServer>> start_http_server(const HttpSettings& settings, HttpHandler& handler) {
  return live_module_function("commlens_http_server")
      .and_then([&](void* entry) -> Result<std::unique_ptr<HttpServer>> {
        if (entry == nullptr) {
          return failure("libcommlens-live.so serves nothing; rebuild commlens");
        }
        std::unique_ptr<HttpServer> server;
        std::string why;
        reinterpret_cast<HttpServerFunction>(entry)(settings, handler, server, why);
        if (server == nullptr) {
          return failure(std::move(why));
        }
        return server;
      });
}

}  // namespace commlens
