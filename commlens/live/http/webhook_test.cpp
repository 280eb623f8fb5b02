#include "commlens/live/http/webhook.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "commlens/base/test_support.hpp"

namespace commlens {
namespace {

using test_support::ScratchDirectory;

constexpr WebhookPace k_at_once{std::chrono::milliseconds(1), std::chrono::milliseconds(2)};

/// Answers in turn with `outcomes`, then with 200, and keeps what it was given. While `is_held` it does not
/// answer.
class Receiver {
 public:
  explicit Receiver(std::vector<PostOutcome> outcomes = {}) : outcomes_(std::move(outcomes)) {}

  PostFunction function() {
    return [this](const std::string& body, const std::function<bool()>& is_stopped) {
      ++calls;
      while (is_held && !is_stopped()) {
        std::this_thread::yield();
      }
      const std::scoped_lock lock(mutex_);
      given_.push_back(body);
      return given_.size() <= outcomes_.size() ? outcomes_[given_.size() - 1] : PostOutcome{200, ""};
    };
  }
  std::vector<std::string> given() const {
    const std::scoped_lock lock(mutex_);
    return given_;
  }

  std::atomic<bool> is_held = false;
  std::atomic<int> calls = 0;

 private:
  mutable std::mutex mutex_;
  std::vector<PostOutcome> outcomes_;
  std::vector<std::string> given_;
};

/// What the webhook says when nothing waits any more.
Webhook::State settled(const Webhook& webhook) {
  while (webhook.state().waiting > 0) {
    std::this_thread::yield();
  }
  return webhook.state();
}

TEST(Webhook, PostsInOrder) {
  Receiver receiver;
  Webhook webhook(receiver.function(), k_at_once);
  webhook.post("alert");
  webhook.post("recovered");
  EXPECT_EQ(settled(webhook).delivered, 2U);
  EXPECT_EQ(receiver.given(), (std::vector<std::string>{"alert", "recovered"}));
}

TEST(Webhook, TriesAgainWhatDidNotArrive) {
  for (const PostOutcome& first :
       {PostOutcome{500, ""}, PostOutcome{503, ""}, PostOutcome{429, ""}, PostOutcome{0, "no route"}}) {
    Receiver receiver({first, first});
    Webhook webhook(receiver.function(), k_at_once);
    webhook.post("alert");
    webhook.post("recovered");
    const Webhook::State state = settled(webhook);
    EXPECT_EQ(state.delivered, 2U) << first.status;
    EXPECT_EQ(state.dropped, 0U) << first.status;
    EXPECT_EQ(state.last_failure, "") << first.status;
    EXPECT_EQ(receiver.given(), (std::vector<std::string>{"alert", "alert", "alert", "recovered"}));
  }
}

TEST(Webhook, DropsWhatIsRefused) {
  for (const int status : {302, 400, 404, 410}) {
    Receiver receiver({PostOutcome{status, ""}});
    Webhook webhook(receiver.function(), k_at_once);
    webhook.post("alert");
    EXPECT_EQ(settled(webhook).dropped, 1U) << status;
    EXPECT_EQ(webhook.state().last_failure, fmt::format("HTTP {}", status));
    webhook.post("recovered");
    EXPECT_EQ(settled(webhook).delivered, 1U) << status;
    EXPECT_EQ(receiver.given(), (std::vector<std::string>{"alert", "recovered"})) << status;
  }
}

// 150 messages while the first is posted: 100 wait, and the first arrives although it was dropped from the
// queue.
TEST(Webhook, KeepsTheLatestHundred) {
  Receiver receiver;
  receiver.is_held = true;
  Webhook webhook(receiver.function(), k_at_once);
  webhook.post("0");
  while (receiver.calls == 0) {
    std::this_thread::yield();
  }
  for (int number = 1; number < 150; ++number) {
    webhook.post(fmt::format("{}", number));
  }
  EXPECT_EQ(webhook.state().waiting, 100U);
  EXPECT_EQ(webhook.state().dropped, 50U);
  receiver.is_held = false;
  const Webhook::State state = settled(webhook);
  EXPECT_EQ(state.delivered, 101U);
  EXPECT_EQ(state.dropped, 49U);
  const std::vector<std::string> given = receiver.given();
  EXPECT_EQ(given.at(0), "0");
  EXPECT_EQ(given.at(1), "50");
  EXPECT_EQ(given.back(), "149");
}

TEST(Webhook, EndsWhileItPostsOrWaits) {
  Receiver silent;
  silent.is_held = true;
  {
    Webhook webhook(silent.function(), k_at_once);
    webhook.post("alert");
    while (silent.calls == 0) {
      std::this_thread::yield();
    }
  }
  Receiver failing({PostOutcome{500, ""}});
  Webhook webhook(failing.function(), {std::chrono::hours(1), std::chrono::hours(1)});
  webhook.post("alert");
  while (failing.calls == 0) {
    std::this_thread::yield();
  }
}

TEST(WebhookUrl, IsReadFromAFileOfTheOwner) {
  const ScratchDirectory directory;
  const std::string file = directory.path("url");
  const auto read = [&](const std::string& text, std::filesystem::perms permissions) {
    std::ofstream(file) << text;
    std::filesystem::permissions(file, permissions);
    return read_webhook_url(file);
  };
  using std::filesystem::perms;
  const perms own = perms::owner_read | perms::owner_write;
  EXPECT_EQ(read("https://example.org/hook?key=1\n", own).value(), "https://example.org/hook?key=1");
  EXPECT_EQ(read("http://localhost:8080\n", own).value(), "http://localhost:8080");
  for (const char* const wrong :
       {"ftp://example.org", "file:///etc/passwd", "example.org", "", "https://a b", "https://a\nb"}) {
    EXPECT_FALSE(read(wrong, own)) << wrong;
  }
  const Result<std::string> shared = read("https://example.org/secret", own | perms::group_read);
  ASSERT_FALSE(shared);
  EXPECT_NE(shared.error().message.find("chmod 600"), std::string::npos);
  EXPECT_EQ(shared.error().message.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace commlens
