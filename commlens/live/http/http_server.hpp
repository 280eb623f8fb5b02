#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "commlens/base/result.hpp"

namespace commlens {

/// Text that a reply shares with the one who made it.
using SharedText = std::shared_ptr<const std::string>;

struct HttpRequest {
  std::string method;
  std::string path;           // decoded, without the query
  std::string host;           // header Host
  std::string authorization;  // header Authorization
  std::string accept;         // header Accept
};

struct HttpReply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  SharedText body;         // nothing: empty
  bool is_stream = false;  // stays open: `body` is sent at once, then what HttpServer::publish() is given
  std::string security_policy;  // header Content-Security-Policy, of pages
};

/// What answers requests; called by the server's thread, one call at a time.
class HttpHandler {
 public:
  HttpHandler() = default;
  HttpHandler(const HttpHandler&) = delete;
  HttpHandler& operator=(const HttpHandler&) = delete;
  virtual ~HttpHandler() = default;
  virtual HttpReply answer(const HttpRequest& request) = 0;
};

/// Where a server listens, and who may ask it.
struct HttpSettings {
  std::string address = "127.0.0.1";  // numeric, IPv4 or IPv6
  std::uint16_t port = 9464;          // 0: any free one
  std::string token;  // what clients must show ("Authorization: Bearer TOKEN"); empty: nothing
  unsigned most_connections = 1024;
  unsigned most_of_address = 64;               // of one client's address, unless it is this machine's own
  std::size_t most_waiting_bytes = 256 << 10;  // of a stream whose client does not read: with more, and more
                                               // than eight texts as long as the next, that one closes it
  /// For a request to come whole, from when its connection was made or the one before was answered.
  std::chrono::nanoseconds longest_request = std::chrono::seconds(30);
};

/// A server that answers GET and HEAD, by one thread of its own, until it is destroyed (within a second).
class HttpServer {
 public:
  HttpServer() = default;
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  virtual ~HttpServer() = default;

  virtual std::uint16_t port() const = 0;
  virtual std::size_t streams() const = 0;
  /// Sends `text` to all open streams, and ends connections whose requests do not come; never waits for a
  /// client.
  virtual void publish(const SharedText& text) = 0;
};

/// `commlens_http_server` of libcommlens-live.so. On failure `server` stays empty and `why` says why.
using HttpServerFunction = void (*)(const HttpSettings& settings, HttpHandler& handler,
                                    std::unique_ptr<HttpServer>& server, std::string& why);

/// A server that asks `handler`, which must outlive it. Fails where the module is not installed, where the
/// address is no numeric one, is not this machine's, or is in use.
Result<std::unique_ptr<HttpServer>> start_http_server(const HttpSettings& settings, HttpHandler& handler);

/// "ADDRESS:PORT" as --listen takes it ("127.0.0.1:9464", "[::1]:0"). Fails with what is wrong.
Result<HttpSettings> parse_listen(std::string_view text);

/// Whether only processes of this machine reach the address (127.0.0.0/8, ::1).
bool is_loopback(std::string_view address);

/// The token of a file, without the line's end. Fails where others may read the file, or where it has fewer
/// than 32 characters or other than visible ASCII.
Result<std::string> read_token(const std::string& file);

}  // namespace commlens
