// Clients that hold, break and flood: the server answers others meanwhile, and keeps nothing of them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "commlens/live/http/http_server.hpp"
#include "commlens/live/http/test_support.hpp"

namespace commlens {
namespace {

using test_support::Client;

SharedText told(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

class OnePage final : public HttpHandler {
 public:
  HttpReply answer(const HttpRequest& request) override {
    const bool is_stream = request.path == "/stream";
    return {200, "text/plain", told(is_stream ? ": begins\n\n" : "well"), is_stream, ""};
  }
};

/// Of this process, the server's and the clients'.
std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

std::int64_t resident_bytes() {
  std::int64_t pages = 0;
  std::int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// A sanitizer keeps what was freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool k_returns_memory = false;
#elif defined(__has_feature)
constexpr bool k_returns_memory = !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer));
#else
constexpr bool k_returns_memory = true;
#endif

class HostileClients : public testing::Test {
 protected:
  void start(HttpSettings settings = {}) {
    settings.port = 0;
    Result<std::unique_ptr<HttpServer>> started = start_http_server(settings, page_);
    if (!started && started.error().message.find("libmicrohttpd-dev") != std::string::npos) {
      GTEST_SKIP() << started.error().message;
    }
    ASSERT_TRUE(started) << started.error().message;
    server_ = std::move(*started);
  }
  std::string ask(const std::string& headers = "") const {
    return test_support::http_answer(server_->port(), "GET", "/", headers);
  }
  bool is_well() const { return test_support::http_body(ask()) == "well"; }
  /// Whether the server, within ten seconds, has closed all that its clients have closed.
  static bool come_to(std::ptrdiff_t files) {
    for (int tries = 0; tries < 1000 && open_files() > files; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return open_files() <= files;
  }

  OnePage page_;
  std::unique_ptr<HttpServer> server_;
};

/// Clients that have begun a request.
std::vector<std::unique_ptr<Client>> slow_clients(std::uint16_t port, std::size_t count) {
  std::vector<std::unique_ptr<Client>> clients;
  for (std::size_t client = 0; client < count; ++client) {
    clients.push_back(std::make_unique<Client>(port));
    clients.back()->say("GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
  }
  return clients;
}

TEST_F(HostileClients, ThatSendAHeaderByteByByteKeepNobodyOut) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (server_ == nullptr)
    return;
  constexpr std::size_t k_slow = 300;
  const std::vector<std::unique_ptr<Client>> clients = slow_clients(server_->port(), k_slow);
  for (int byte = 0; byte < 20; ++byte) {
    for (const std::unique_ptr<Client>& client : clients) {
      ASSERT_TRUE(client->say("x"));
    }
    ASSERT_TRUE(is_well()) << "after " << byte << " bytes";
  }
  ASSERT_TRUE(clients.front()->say("\r\nConnection: close\r\n\r\n"));  // slow, and well in the end
  EXPECT_EQ(test_support::http_body(clients.front()->hear_all()), "well");
}

TEST_F(HostileClients, ThatDoNotFinishARequestAreLeftInTheEnd) {
  HttpSettings settings;
  settings.longest_request = std::chrono::nanoseconds(0);
  ASSERT_NO_FATAL_FAILURE(start(settings));
  if (server_ == nullptr)
    return;
  Client good(server_->port());
  ASSERT_TRUE(good.stream());
  ASSERT_NE(good.hear("begins\n\n").find("200"), std::string::npos);
  const std::ptrdiff_t before = open_files();
  {
    const std::vector<std::unique_ptr<Client>> clients = slow_clients(server_->port(), 100);
    Client again(server_->port());  // of whose two requests the second one does not end
    ASSERT_TRUE(again.ask("GET", "/"));
    ASSERT_NE(again.hear("well").find("200"), std::string::npos);
    ASSERT_TRUE(again.say("GET / HT"));
    ASSERT_TRUE(is_well());  // so that the others are known to the server
    server_->publish(told(": goes on\n\n"));
    for (const std::unique_ptr<Client>& client : clients) {
      ASSERT_TRUE(client->is_left());
    }
    EXPECT_TRUE(again.is_left());
  }
  EXPECT_EQ(good.hear("goes on\n\n").find("begins"), std::string::npos);
  EXPECT_TRUE(is_well());
  EXPECT_TRUE(come_to(before));
}

TEST_F(HostileClients, MayHaveALongHeaderAndNotALongerOne) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (server_ == nullptr)
    return;
  const std::ptrdiff_t before = open_files();
  for (int tries = 0; tries < 50; ++tries) {
    const std::string refused = ask("X-Long: " + std::string(20'000, 'x') + "\r\n");
    ASSERT_EQ(refused.find("HTTP/1.1 200 "), std::string::npos);
    const std::string taken = ask("X-Long: " + std::string(10'000, 'x') + "\r\n");
    ASSERT_EQ(test_support::http_body(taken), "well") << taken;
    std::string many;
    for (int header = 0; header < 1000; ++header) {  // 10 KB in small ones, which take room each
      many += "X: 1234\r\n";
    }
    ASSERT_EQ(ask(many).find("HTTP/1.1 200 "), std::string::npos);
    ASSERT_TRUE(is_well());
  }
  EXPECT_TRUE(come_to(before));
}

/// A connection that says nothing, half a request, one whose answer it does not hear, or noise.
void attempt(std::uint16_t port, int kind) {
  const Client client(port);
  client.break_off_at_end();
  const std::string words[] = {"", "GET / HTTP/1.1\r\nHost: loc", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                               std::string("\x16\x03\x01\0\xff", 5)};
  client.say(words[static_cast<std::size_t>(kind) % std::size(words)]);
}

TEST_F(HostileClients, OneAfterTheOtherLeaveNothingBehind) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (server_ == nullptr)
    return;
  for (int warm = 0; warm < 400; ++warm) {
    attempt(server_->port(), warm);
  }
  ASSERT_TRUE(is_well());
  const std::ptrdiff_t files = open_files();
  const std::int64_t bytes = resident_bytes();
  constexpr int k_attempts = 10'000;
  for (int count = 0; count < k_attempts; ++count) {
    attempt(server_->port(), count);
    if (count % 500 == 0) {
      ASSERT_TRUE(is_well()) << "after " << count;
    }
  }
  EXPECT_TRUE(come_to(files));
  EXPECT_TRUE(is_well());
  if (k_returns_memory) {
    // Were 16 KiB of each kept, these would be 160 MB.
    EXPECT_LT(resident_bytes() - bytes, std::int64_t{16} << 20);
  }
}

// More than the server takes: some are turned away, and when they have gone all is as before.
TEST_F(HostileClients, MoreThanItsConnectionsAtOnceAreForgotten) {
  HttpSettings settings;
  settings.most_connections = 32;
  ASSERT_NO_FATAL_FAILURE(start(settings));
  if (server_ == nullptr)
    return;
  ASSERT_TRUE(is_well());
  const std::ptrdiff_t before = open_files();
  for (int round = 0; round < 5; ++round) {
    std::vector<std::unique_ptr<Client>> clients;
    for (int client = 0; client < 100; ++client) {
      clients.push_back(std::make_unique<Client>(server_->port()));
    }
    clients.clear();
    ASSERT_TRUE(come_to(before));
    ASSERT_TRUE(is_well()) << "round " << round;
  }
}

}  // namespace
}  // namespace commlens
