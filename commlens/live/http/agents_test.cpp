// States of nodes by HTTP, from a server of this process.
#include "commlens/live/http/agents.hpp"

#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/base/test_support.hpp"
#include "commlens/live/http/http_server.hpp"

namespace commlens {
namespace {

using test_support::ScratchDirectory;
using Answers = std::map<std::string, std::string>;  // by address, less the server's

/// Answers /good/api/v1/node with a state, /moved with a redirection to it, /other with no state.
class AgentPages final : public HttpHandler {
 public:
  HttpReply answer(const HttpRequest& request) override {
    HttpReply reply;
    std::string body = "no state";
    if (request.path == "/good/api/v1/node") {
      body = node_state_text({.node = "n1", .follower = "1:2", .number = 7, .view = {}});
    } else if (request.path == "/moved/api/v1/node") {
      reply.status = 302;
    }
    reply.body = std::make_shared<const std::string>(body);
    return reply;
  }
};

const std::string k_token = "0123456789abcdef0123456789abcdef";

/// What each address gave with a token; nothing where the server or libcurl cannot be had here.
std::optional<Answers> answers_with(const std::string& token, const std::vector<std::string>& names) {
  AgentPages pages;
  const auto server = start_http_server({.port = 0, .token = k_token}, pages);
  if (!server) {
    return std::nullopt;
  }
  const std::string base = fmt::format("http://127.0.0.1:{}/", (*server)->port());
  std::vector<std::string> addresses;
  for (const std::string& name : names) {
    addresses.push_back(base + name);
  }
  const auto source = AgentsSource::open(addresses, token);
  if (!source) {
    return std::nullopt;
  }
  (*source)->wait_for_answers();
  Answers answers;
  (*source)->look([&](const std::string& place, const Result<NodeState>& state) {
    answers[place.substr(base.size())] =
        state ? fmt::format("{} {}", state->node, state->number) : state.error().message;
  });
  return answers;
}

TEST(Agents, AnswerWithStatesOrSayWhyNot) {
  const std::optional<Answers> answers = answers_with(k_token, {"good", "moved", "other/"});
  if (!answers) {
    GTEST_SKIP() << "libcommlens-live.so was not built, or without libcurl";
  }
  EXPECT_EQ(*answers, (Answers{{"good", "n1 7"},
                               {"moved", "HTTP 302"},
                               {"other/", "not valid JSON; was the file cut off?"}}));
}

TEST(Agents, AreAskedWithTheToken) {
  const std::optional<Answers> answers = answers_with("wrong", {"good"});
  if (!answers) {
    GTEST_SKIP() << "libcommlens-live.so was not built, or without libcurl";
  }
  EXPECT_EQ(*answers, (Answers{{"good", "HTTP 401: it wants another token (--agents-token-file)"}}));
}

TEST(Agents, AreReadFromAFile) {
  const ScratchDirectory directory;
  const std::string good = directory.write("good", "# nodes\n\nhttp://n1:9464/ \nhttps://n2\r\n");
  const Result<std::vector<std::string>> addresses = read_agents(good);
  ASSERT_TRUE(addresses) << addresses.error().message;
  EXPECT_EQ(*addresses, (std::vector<std::string>{"http://n1:9464/", "https://n2"}));
  EXPECT_EQ(node_url("http://n1:9464/"), "http://n1:9464/api/v1/node");
  EXPECT_EQ(node_url("https://n2"), "https://n2/api/v1/node");
  EXPECT_EQ(node_url("http://n1/api/v1/node"), "http://n1/api/v1/node");
  for (const char* const good : {"http://[::1]:9464/", "HTTP://n1", "http://n1:65535/proxied/n1/"}) {
    EXPECT_TRUE(is_address(good)) << good;
  }
  for (const char* const bad : {"n1:9464\n", "http://me:secret@n1/\n", "http:///\n", "http://n1:port/\n",
                                "http://n1:0/\n", "http://n1/?x\n", "\n"}) {
    const Result<std::vector<std::string>> refused = read_agents(directory.write("bad", bad));
    ASSERT_FALSE(refused) << bad;
    EXPECT_NE(refused.error().message.find("no address of an agent"), std::string::npos);
    EXPECT_EQ(refused.error().message.find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace commlens
