#include "commlens/live/http/http_server.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/base/test_support.hpp"
#include "commlens/live/http/http_policy.hpp"
#include "commlens/live/http/test_support.hpp"

namespace commlens {
namespace {

using test_support::Client;

SharedText shared(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

/// `/stream` is one, `/fails` throws, `/echo` answers with the path; all else is not found.
class FewPages final : public HttpHandler {
 public:
  HttpReply answer(const HttpRequest& request) override {
    if (request.path == "/stream") {
      return {200, "text/event-stream", shared("data: first\n\n"), true, ""};
    }
    if (request.path == "/fails") {
      throw std::runtime_error("no such thing");
    }
    if (request.path == "/echo" || request.path == "/healthz") {
      return {200, "text/plain", shared("you asked for " + request.path), false, ""};
    }
    return {404, "text/plain", shared("no " + request.path), false, ""};
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Serving : public ::testing::Test {
 protected:
  void start(HttpSettings settings = {}) {
    settings.port = 0;
    Result<std::unique_ptr<HttpServer>> started = start_http_server(settings, pages_);
    if (!started && has(started.error().message, "libmicrohttpd-dev")) {
      GTEST_SKIP() << started.error().message;
    }
    ASSERT_TRUE(started) << started.error().message;
    server_ = std::move(*started);
  }
  std::string ask(const std::string& method, const std::string& path, const std::string& headers = "") {
    return test_support::http_answer(server_->port(), method, path, headers);
  }
  bool comes_to(std::size_t streams) const {
    for (int tries = 0; tries < 1000 && server_->streams() != streams; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return server_->streams() == streams;
  }

  FewPages pages_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(Serving, AnswersGetAndHeadAlone) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (server_ == nullptr)
    return;
  const std::string page = ask("GET", "/echo");
  EXPECT_TRUE(has(page, "HTTP/1.1 200 ")) << page;
  EXPECT_TRUE(has(page, "you asked for /echo"));
  EXPECT_TRUE(has(page, "Cache-Control: no-store\r\n"));
  EXPECT_TRUE(has(page, "X-Content-Type-Options: nosniff\r\n"));
  EXPECT_TRUE(has(page, "Content-Security-Policy: default-src 'none'\r\n"));
  const std::string head = ask("HEAD", "/echo");
  EXPECT_TRUE(has(head, "HTTP/1.1 200 "));
  EXPECT_FALSE(has(head, "you asked"));
  for (const char* const method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    const std::string refused = ask(method, "/echo");
    EXPECT_TRUE(has(refused, "HTTP/1.1 405 ")) << method << refused;
    EXPECT_TRUE(has(refused, "Allow: GET, HEAD\r\n"));
  }
}

TEST_F(Serving, KnowsItsPagesAndNoFiles) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (server_ == nullptr)
    return;
  for (const char* const path :
       {"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/echo/"}) {
    EXPECT_TRUE(has(ask("GET", path), "HTTP/1.1 404 ")) << path;
  }
  const std::string failed = ask("GET", "/fails");
  EXPECT_TRUE(has(failed, "HTTP/1.1 500 "));
  EXPECT_TRUE(has(failed, "no such thing"));
}

TEST_F(Serving, SurvivesWhatIsNoRequest) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (server_ == nullptr)
    return;
  Client long_header(server_->port());
  long_header.ask("GET", "/echo", "X: " + std::string(100'000, 'x') + "\r\n");
  EXPECT_FALSE(has(long_header.hear_all(), "HTTP/1.1 200 "));
  Client noise(server_->port());
  noise.say(std::string("\0\x01\xff\r\n\r\n", 7));
  const Client slow(server_->port());  // says half a request, and no more
  slow.say("GET /echo HT");
  EXPECT_TRUE(has(ask("GET", "/echo"), "HTTP/1.1 200 "));
}

TEST_F(Serving, WantsItsTokenWhereItHasOne) {
  HttpSettings settings;
  settings.token = "0123456789abcdef0123456789abcdef";
  ASSERT_NO_FATAL_FAILURE(start(settings));
  if (server_ == nullptr)
    return;
  EXPECT_TRUE(has(ask("GET", "/echo"), "HTTP/1.1 401 "));
  EXPECT_TRUE(has(ask("GET", "/echo", "Authorization: Bearer wrong\r\n"), "HTTP/1.1 401 "));
  EXPECT_TRUE(has(ask("GET", "/echo", "Authorization: Bearer " + settings.token + "\r\n"), "HTTP/1.1 200 "));
  EXPECT_TRUE(has(ask("GET", "/healthz"), "HTTP/1.1 200 "));
}

TEST_F(Serving, StreamsToManyClients) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (server_ == nullptr)
    return;
  constexpr std::size_t k_clients = 200;
  std::vector<std::unique_ptr<Client>> clients;
  for (std::size_t client = 0; client < k_clients; ++client) {
    clients.push_back(std::make_unique<Client>(server_->port()));
    ASSERT_TRUE(clients.back()->stream());
  }
  for (const std::unique_ptr<Client>& client : clients) {
    ASSERT_TRUE(has(client->hear("first\n\n"), "text/event-stream"));
  }
  EXPECT_EQ(server_->streams(), k_clients);
  server_->publish(shared("data: second\n\n"));
  server_->publish(shared("data: third\n\n"));
  for (const std::unique_ptr<Client>& client : clients) {
    const std::string heard = client->hear("third\n\n");
    EXPECT_LT(heard.find("second"), heard.find("third")) << heard;
  }
  clients.clear();
  for (int tries = 0; tries < 100 && server_->streams() > 0;
       ++tries) {  // a closed socket is seen when it is written to
    server_->publish(shared(": still there?\n\n"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(server_->streams(), 0U);
}

TEST_F(Serving, LeavesAClientThatDoesNotRead) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (server_ == nullptr)
    return;
  Client deaf(server_->port());
  Client good(server_->port());
  ASSERT_TRUE(deaf.stream());
  ASSERT_TRUE(good.stream());
  ASSERT_TRUE(has(good.hear("first\n\n"), "text/event-stream"));
  ASSERT_TRUE(comes_to(2));
  const std::string block(100'000, 'x');
  constexpr int k_blocks = 200;  // 20 MB: more than sockets and the queue of the stream hold
  for (int count = 0; count < k_blocks; ++count) {
    server_->publish(shared(fmt::format("data: {}{}\n\n", block, count)));
    ASSERT_TRUE(has(good.hear(fmt::format("x{}\n\n", count)), "data: " + block));
  }
  const std::string rest = deaf.hear_all();  // up to where it was left
  EXPECT_LT(rest.size(), block.size() * k_blocks);
  EXPECT_TRUE(comes_to(1));
}

TEST_F(Serving, SendsALongTextToAClientThatReads) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (server_ == nullptr)
    return;
  const Client client(server_->port());
  ASSERT_TRUE(client.stream());
  ASSERT_TRUE(has(client.hear("first\n\n"), "text/event-stream"));
  const std::string longer(3 * HttpSettings{}.most_waiting_bytes, 'y');
  server_->publish(shared(longer + "end of it"));
  EXPECT_EQ(client.hear("end of it"), longer + "end of it");
  EXPECT_EQ(server_->streams(), 1U);
}

// States of a big job, while the client's machine is busy: more than sockets hold.
TEST_F(Serving, KeepsAClientThatIsAFewLongTextsBehind) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (server_ == nullptr)
    return;
  Client client(server_->port());
  ASSERT_TRUE(client.stream());
  ASSERT_TRUE(comes_to(1));
  const std::string longer(std::size_t{32} << 20, 'z');
  for (int count = 0; count < 4; ++count) {
    server_->publish(shared(fmt::format("{}end {}", longer, count)));
  }
  EXPECT_TRUE(has(client.hear("end 3"), "end 3"));
}

TEST_F(Serving, EndsWithStreamsOpen) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (server_ == nullptr)
    return;
  Client client(server_->port());
  ASSERT_TRUE(client.stream());
  EXPECT_TRUE(has(client.hear("first\n\n"), "first"));
  server_.reset();
  EXPECT_TRUE(client.is_left());
}

TEST_F(Serving, TwoCannotListenAtOnePlace) {
  ASSERT_NO_FATAL_FAILURE(start());
  if (server_ == nullptr)
    return;
  HttpSettings settings;
  settings.port = server_->port();
  const Result<std::unique_ptr<HttpServer>> second = start_http_server(settings, pages_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message,
            fmt::format("cannot listen on 127.0.0.1 port {}: Address already in use; choose "
                        "another with --listen",
                        settings.port));
}

HttpRequest request_of(const std::string& host) { return {"GET", "/metrics", host, "", ""}; }

TEST(HttpPolicy, AnswersAsThisMachineAlone) {
  const HttpSettings here;
  for (const char* const host : {"localhost", "localhost:9464", "127.0.0.1:1", "[::1]:80", "127.8.9.1"}) {
    EXPECT_FALSE(refusal_of(request_of(host), here)) << host;
  }
  for (const char* const host :
       {"evil.example", "evil.example:9464", "", "127.0.0.1.evil.example", "[::1", "localhost.evil"}) {
    const std::optional<HttpReply> refused = refusal_of(request_of(host), here);
    ASSERT_TRUE(refused) << host;
    EXPECT_EQ(refused->status, 421) << host;
  }
}

TEST(HttpPolicy, ElsewhereTheTokenDecides) {
  HttpSettings there;
  there.address = "10.0.0.1";
  there.token = "0123456789abcdef0123456789abcdef";
  HttpRequest request = request_of("node17:9464");
  EXPECT_EQ(refusal_of(request, there)->status, 401);
  request.authorization = "Bearer " + there.token;
  EXPECT_FALSE(refusal_of(request, there));
  request.authorization = "bearer " + there.token;  // the scheme's name is in any case, RFC 9110
  EXPECT_FALSE(refusal_of(request, there));
  request.authorization += "0";
  EXPECT_EQ(refusal_of(request, there)->status, 401);
}

TEST(HttpListen, ReadsAddressesAndPorts) {
  EXPECT_EQ(parse_listen("127.0.0.1:9464")->port, 9464);
  EXPECT_EQ(parse_listen("[::1]:0")->address, "::1");
  for (const char* const text :
       {"9464", "localhost:9464", "1.2.3.4:", "1.2.3.4:65536", "::1:80", "1.2.3.4:80x", ""}) {
    EXPECT_FALSE(parse_listen(text)) << text;
  }
  EXPECT_TRUE(is_loopback("127.0.0.1"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("0.0.0.0"));
  EXPECT_FALSE(is_loopback("::"));
}

TEST(HttpToken, IsSecretAndLong) {
  const test_support::ScratchDirectory directory;
  const std::string file = directory.path("token");
  const auto write = [&](const std::string& text, std::filesystem::perms perms) {
    std::ofstream(file) << text;
    std::filesystem::permissions(file, perms);
  };
  const auto own = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  write("0123456789abcdef0123456789abcdef\n", own);
  EXPECT_EQ(read_token(file).value(), "0123456789abcdef0123456789abcdef");
  write("0123456789abcdef0123456789abcdef\n", own | std::filesystem::perms::others_read);
  EXPECT_FALSE(read_token(file));
  write("short\n", own);
  EXPECT_FALSE(read_token(file));
  write("0123456789abcdef 0123456789abcdef\n", own);
  EXPECT_FALSE(read_token(file));
  EXPECT_FALSE(read_token(file + "-missing"));
  EXPECT_EQ(read_token("/dev/null").error().message, "/dev/null: a token is in a regular file");
}

TEST(HttpToken, IsComparedWhole) {
  EXPECT_TRUE(are_equal_in_constant_time("abc", "abc"));
  EXPECT_FALSE(are_equal_in_constant_time("abc", "abd"));
  EXPECT_FALSE(are_equal_in_constant_time("abc", "abcd"));
  EXPECT_FALSE(are_equal_in_constant_time("", "a"));
}

}  // namespace
}  // namespace commlens
