// The part of libcommlens-live.so that asks agents, by libcurl; loaded by AgentsSource.
#include <string>
#include <vector>

#include "commlens/live/http/agents.hpp"
#include "commlens/live/http/curl_handles.hpp"
#include "commlens/live/spool.hpp"

namespace commlens {
namespace {

constexpr long k_get_limit_ms = 5000;
constexpr int k_get_look_ms = 100;
constexpr long k_connect_limit_ms = 2000;
constexpr std::size_t k_at_once = 512;  // so that some that do not answer keep no other waiting

/// One question under way.
struct Question {
  CurlHandle handle;
  std::string body;
  bool is_too_large = false;
};

std::size_t take_answer(char* text, std::size_t size, std::size_t count, void* of) {
  Question& question = *static_cast<Question*>(of);
  question.is_too_large = question.body.size() + size * count > k_largest_state;
  if (question.is_too_large) {
    return 0;
  }
  question.body.append(text, size * count);
  return size * count;
}

bool ask(Question& question, std::size_t row, const std::string& url, const curl_slist* headers) {
  CURL* const handle = question.handle.get();
  if (handle == nullptr || curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK ||
      curl_easy_setopt(handle, CURLOPT_URL, url.c_str()) != CURLE_OK) {
    return false;
  }
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(handle, CURLOPT_USERAGENT, "commlens");
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(handle, CURLOPT_PROXY, "");  // agents are near; a proxy would see the token
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, k_connect_limit_ms);
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, k_get_limit_ms);
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &take_answer);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, static_cast<void*>(&question));
  curl_easy_setopt(handle, CURLOPT_PRIVATE, reinterpret_cast<void*>(row));
  return true;
}

/// What to do about an answer.
std::string hint_for(long status) {
  constexpr long no_token = 401;
  constexpr long no_page = 404;
  constexpr long not_here = 421;
  return status == no_token   ? ": it wants another token (--agents-token-file)"
         : status == no_page  ? ": give the address of its page"
         : status == not_here ? ": it answers as localhost alone; let it --listen on another address"
                              : "";
}

GetOutcome outcome_of(Question& question, CURLcode result) {
  constexpr long success = 200;
  long status = 0;
  curl_easy_getinfo(question.handle.get(), CURLINFO_RESPONSE_CODE, &status);
  if (question.is_too_large) {
    return {.body = {}, .why = "too large for the state of a node"};
  }
  if (result != CURLE_OK) {
    return {.body = {}, .why = curl_easy_strerror(result)};
  }
  if (status != success) {
    return {.body = {}, .why = "HTTP " + std::to_string(status) + hint_for(status)};
  }
  return {.body = std::move(question.body), .why = {}};
}

/// Asks all, so many at a time that none waits for its turn in its own time.
class Round {
 public:
  using Sink = std::function<void(std::size_t row, GetOutcome&& outcome)>;
  Round(const GetRequest& request, const Sink& sink)
      : request_(request), sink_(sink), multi_(curl_multi_init()), questions_(request.urls.size()) {
    if (!request.token.empty()) {
      headers_.reset(curl_slist_append(nullptr, ("Authorization: Bearer " + request.token).c_str()));
    }
  }
  ~Round() {
    for (const Question& question : questions_) {
      curl_multi_remove_handle(multi_.get(), question.handle.get());
    }
  }
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  void run(const std::function<bool()>& is_stopped) {
    CURLMcode state = CURLM_OK;
    start_more();
    while (under_way_ > 0 && state == CURLM_OK && !is_stopped()) {
      int running = 0;
      state = curl_multi_perform(multi_.get(), &running);
      take_answers();
      start_more();
      if (under_way_ > 0 && state == CURLM_OK) {
        state = curl_multi_poll(multi_.get(), nullptr, 0, k_get_look_ms, nullptr);
      }
    }
    for (std::size_t row = 0; state != CURLM_OK && row < questions_.size(); ++row) {
      if (row >= next_ || questions_[row].handle) {
        sink_(row, {.body = {}, .why = curl_multi_strerror(state)});
      }
    }
  }

 private:
  void start_more() {
    while (next_ < questions_.size() && under_way_ < k_at_once) {
      const std::size_t row = next_++;
      Question& question = questions_[row];
      question.handle.reset(curl_easy_init());
      if (ask(question, row, request_.urls[row], headers_.get()) &&
          curl_multi_add_handle(multi_.get(), question.handle.get()) == CURLM_OK) {
        ++under_way_;
      } else {
        sink_(row, {.body = {}, .why = "libcurl takes no such address"});
      }
    }
  }
  void take_answers() {
    int left = 0;
    while (const CURLMsg* const message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg == CURLMSG_DONE) {
        const CURLcode result = message->data.result;
        char* private_row = nullptr;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private_row);
        const auto row = reinterpret_cast<std::size_t>(private_row);
        sink_(row, outcome_of(questions_[row], result));
        curl_multi_remove_handle(multi_.get(), questions_[row].handle.get());
        questions_[row].handle.reset();
        --under_way_;
      }
    }
  }

  const GetRequest& request_;
  const Sink& sink_;
  CurlHandles multi_;
  CurlList headers_;
  std::vector<Question> questions_;
  std::size_t next_ = 0;
  std::size_t under_way_ = 0;
};

}  // namespace
}  // namespace commlens

extern "C" __attribute__((visibility("default"))) void commlens_http_get(
    const commlens::GetRequest& request, const std::function<bool()>& is_stopped,
    const std::function<void(std::size_t row, commlens::GetOutcome&& outcome)>& sink) {
  commlens::begin_curl();
  commlens::Round(request, sink).run(is_stopped);
}
