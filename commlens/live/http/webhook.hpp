#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "commlens/base/result.hpp"

namespace commlens {

/// What became of one POST.
struct PostOutcome {
  int status = 0;   // of HTTP; 0: no answer came
  std::string why;  // no answer came; never holds the address
};

/// Posts `body` (JSON) once: 5 s at most, no redirect followed; gives up soon after `is_stopped` says so.
using PostFunction =
    std::function<PostOutcome(const std::string& body, const std::function<bool()>& is_stopped)>;

/// `commlens_http_post` of libcommlens-live.so.
using HttpPostFunction = void (*)(const std::string& url, const std::string& body,
                                  const std::function<bool()>& is_stopped, PostOutcome& outcome);

/// The URL of a file, http or https. Fails as read_secret_file(), and for other schemes.
Result<std::string> read_webhook_url(const std::string& file);

/// What posts to a URL. Fails where the module is not installed or was built without libcurl.
Result<PostFunction> http_post_to(const std::string& url);

/// How long a message that did not arrive waits: `first`, then twice as long each time, up to `longest`.
struct WebhookPace {
  std::chrono::milliseconds first{1000};
  std::chrono::milliseconds longest{60'000};
};

/// Posts messages in their order by a thread of its own. One that did not arrive, or that was answered with
/// 408, 429 or 5xx, is tried again; one that was refused otherwise is dropped.
class Webhook {
 public:
  /// Messages that wait; with one more, the oldest is dropped.
  static constexpr std::size_t k_most = 100;

  struct State {
    std::size_t delivered = 0;
    std::size_t dropped = 0;
    std::size_t waiting = 0;   // the one that is posted now, too
    std::string last_failure;  // "HTTP 500", "could not connect"; empty: none since the last delivery
  };

  explicit Webhook(PostFunction post, WebhookPace pace = {});
  /// Within a second; what waits is lost.
  ~Webhook();
  Webhook(const Webhook&) = delete;
  Webhook& operator=(const Webhook&) = delete;

  /// Never waits for the receiver.
  void post(std::string message);
  State state() const;

 private:
  void work();
  void settle(const PostOutcome& outcome, std::size_t number);

  PostFunction post_;
  WebhookPace pace_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  std::size_t first_number_ = 0;  // of the first that waits: how many went before
  std::chrono::milliseconds rest_{0};
  State state_;
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace commlens
