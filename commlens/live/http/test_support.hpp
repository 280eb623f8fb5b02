#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/// Shared by tests of what is served; not part of the product.
namespace commlens::test_support {

/// A client over HTTP on this machine that says what it is given and hears what is said.
class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(port);
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{10, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    is_connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0;
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool say(const std::string& text) const {
    return is_connected_ && send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == std::ssize(text);
  }
  bool ask(const std::string& method, const std::string& path, const std::string& headers = "") const {
    return say(method + ' ' + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
  }
  /// What comes, after what was heard before, until `end` has come, the other side closes, or ten seconds
  /// have passed.
  std::string hear(const std::string& end) const {
    std::string heard;
    std::size_t searched = 0;
    while (heard.find(end, searched) == std::string::npos) {
      searched = heard.size() - std::min(heard.size(), end.size());
      std::array<char, 16384> block{};
      const ssize_t bytes = recv(socket_, block.data(), block.size(), 0);
      if (bytes <= 0) {
        break;
      }
      heard.append(block.data(), static_cast<std::size_t>(bytes));
    }
    return heard;
  }
  /// As one that gets its answer to the end of the connection, in one piece.
  bool stream() const { return say("GET /stream HTTP/1.0\r\nHost: localhost\r\n\r\n"); }
  /// Whether the other side has closed the connection, all of whose text was heard; waits up to ten seconds.
  bool is_left() const {
    char one = 0;
    return recv(socket_, &one, 1, 0) == 0;
  }
  /// Its end leaves nothing behind in the kernel, as of one that crashed.
  void break_off_at_end() const {
    const linger at_once{1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  /// All that comes until the other side closes.
  std::string hear_all() const { return hear("\x01 never said"); }

 private:
  int socket_;
  bool is_connected_ = false;
};

/// The whole answer, with its headers.
inline std::string http_answer(std::uint16_t port, const std::string& method, const std::string& path,
                               const std::string& headers = "") {
  const Client client(port);
  client.ask(method, path, headers + "Connection: close\r\n");
  return client.hear_all();
}

/// What follows the headers of an answer.
inline std::string http_body(const std::string& answer) {
  const std::size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? std::string() : answer.substr(end + 4);
}

}  // namespace commlens::test_support
