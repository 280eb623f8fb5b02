#include "commlens/live/http/http_server.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include "commlens/base/file.hpp"
#include "commlens/base/modules.hpp"

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
  struct stat state{};
  const bool is_there = stat(file.c_str(), &state) == 0;
  if (is_there && !S_ISREG(state.st_mode)) {
    return failure(fmt::format("{}: a token is in a regular file", file));
  }
  if (is_there && (state.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return failure(fmt::format("{}: others may read it; chmod 600 {}", file, file));
  }
  constexpr std::int64_t most = 4096;
  return read_text_file(file, most).and_then([&](std::string text) -> Result<std::string> {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
      text.pop_back();
    }
    if (text.size() < fewest) {
      return failure(
          fmt::format("{}: a token has at least {} characters, this one {}; openssl rand -hex 32 > {}", file,
                      fewest, text.size(), file));
    }
    if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; })) {
      return failure(fmt::format("{}: a token is one line of visible ASCII characters", file));
    }
    return text;
  });
}

Result<std::unique_ptr<HttpServer>> start_http_server(const HttpSettings& settings, HttpHandler& handler) {
  constexpr const char* file = "libcommlens-live.so";
  const std::optional<std::filesystem::path> path = module_file(file);
  if (!path) {
    return failure(
        fmt::format("nothing can be served here: {} is not in {}; build commlens where libmicrohttpd-dev "
                    "is installed, or name its directory in COMMLENS_MODULE_PATH",
                    file, searched_for_modules()));
  }
  void* const module = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const entry = module == nullptr ? nullptr : dlsym(module, "commlens_http_server");
  if (entry == nullptr) {
    return failure(
        fmt::format("cannot load {}: {}; install libmicrohttpd (libmicrohttpd12), or rebuild commlens",
                    path->string(), dlerror()));
  }
  std::unique_ptr<HttpServer> server;
  std::string why;
  reinterpret_cast<HttpServerFunction>(entry)(settings, handler, server, why);
  if (server == nullptr) {
    return failure(std::move(why));
  }
  return server;
}

}  // namespace commlens
