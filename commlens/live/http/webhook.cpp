#include "commlens/live/http/webhook.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "commlens/live/http/live_module.hpp"
#include "commlens/live/http/secret_file.hpp"

namespace commlens {
namespace {

enum class Fate : std::uint8_t { delivered, again, refused };

Fate fate_of(int status) {
  constexpr int success = 2;
  constexpr int server_error = 5;
  constexpr int hundred = 100;
  constexpr int request_timeout = 408;
  constexpr int too_many_requests = 429;
  if (status / hundred == success) {
    return Fate::delivered;
  }
  const bool is_passing = status == 0 || status == request_timeout || status == too_many_requests ||
                          status / hundred == server_error;
  return is_passing ? Fate::again : Fate::refused;
}

}  // namespace

Result<std::string> read_webhook_url(const std::string& file) {
  return read_secret_file(file, "the URL of a webhook").and_then([&](std::string url) -> Result<std::string> {
    if (!url.starts_with("https://") && !url.starts_with("http://")) {
      return failure(fmt::format("{}: the URL of a webhook begins with https:// or http://", file));
    }
    return url;
  });
}

Result<PostFunction> http_post_to(const std::string& url) {
  return live_module_function("commlens_http_post").and_then([&](void* entry) -> Result<PostFunction> {
    if (entry == nullptr) {
      return failure(
          "--webhook: this commlens was built without libcurl; build it where libcurl4-openssl-dev is "
          "installed, or use --on-alert");
    }
    const auto post = reinterpret_cast<HttpPostFunction>(entry);
    return [post, url](const std::string& body, const std::function<bool()>& is_stopped) {
      PostOutcome outcome;
      post(url, body, is_stopped, outcome);
      return outcome;
    };
  });
}

Webhook::Webhook(PostFunction post, WebhookPace pace)
    : post_(std::move(post)), pace_(pace), thread_([this] { work(); }) {}

Webhook::~Webhook() {
  {
    const std::scoped_lock lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Webhook::post(std::string message) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(message));
    if (waiting_.size() > k_most) {
      waiting_.pop_front();
      ++first_number_;
      ++state_.dropped;
    }
  }
  changed_.notify_all();
}

Webhook::State Webhook::state() const {
  const std::scoped_lock lock(mutex_);
  State state = state_;
  state.waiting = waiting_.size();
  return state;
}

void Webhook::work() {
  const auto is_stopped = [this] {
    const std::scoped_lock lock(mutex_);
    return is_stopped_;
  };
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_stopped_ || !waiting_.empty(); });
    if (is_stopped_) {
      return;
    }
    const std::string message = waiting_.front();
    const std::size_t number = first_number_;
    lock.unlock();
    const PostOutcome outcome = post_(message, is_stopped);
    lock.lock();
    settle(outcome, number);
    changed_.wait_for(lock, rest_, [&] { return is_stopped_; });
  }
}

/// The message `number` was posted; it may have been dropped meanwhile. Called with the lock.
void Webhook::settle(const PostOutcome& outcome, std::size_t number) {
  const Fate fate = fate_of(outcome.status);
  rest_ = fate != Fate::again  ? std::chrono::milliseconds{}
          : rest_.count() == 0 ? pace_.first
                               : std::min(2 * rest_, pace_.longest);
  const std::string why = outcome.status == 0 ? outcome.why : fmt::format("HTTP {}", outcome.status);
  state_.last_failure = fate == Fate::delivered ? "" : why;
  const bool is_first = number == first_number_ && !waiting_.empty();
  if (fate == Fate::delivered) {
    ++state_.delivered;
    state_.dropped -= is_first ? 0 : 1;  // it was counted too early
  } else if (fate == Fate::refused && is_first) {
    ++state_.dropped;
  }
  if (fate != Fate::again && is_first) {
    waiting_.pop_front();
    ++first_number_;
  }
}

}  // namespace commlens
