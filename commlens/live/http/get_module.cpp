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
constexpr long k_most_connections = 128;

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
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, k_get_limit_ms);
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &take_answer);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, static_cast<void*>(&question));
  curl_easy_setopt(handle, CURLOPT_PRIVATE, reinterpret_cast<void*>(row));
  return true;
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
    return {.body = {}, .why = "HTTP " + std::to_string(status)};
  }
  return {.body = std::move(question.body), .why = {}};
}

void get_all(const GetRequest& request, const std::function<bool()>& is_stopped,
             const std::function<void(std::size_t row, GetOutcome&& outcome)>& sink) {
  begin_curl();
  const CurlHandles multi(curl_multi_init());
  const std::string shown = "Authorization: Bearer " + request.token;
  const CurlList headers(request.token.empty() ? nullptr : curl_slist_append(nullptr, shown.c_str()));
  curl_multi_setopt(multi.get(), CURLMOPT_MAX_TOTAL_CONNECTIONS, k_most_connections);
  std::vector<Question> questions(request.urls.size());
  for (std::size_t row = 0; row < questions.size(); ++row) {
    questions[row].handle.reset(curl_easy_init());
    if (ask(questions[row], row, request.urls[row], headers.get())) {
      curl_multi_add_handle(multi.get(), questions[row].handle.get());
    } else {
      sink(row, {.body = {}, .why = "libcurl takes no such address"});
    }
  }
  int running = 1;
  CURLMcode state = CURLM_OK;
  while (running > 0 && state == CURLM_OK && !is_stopped()) {
    state = curl_multi_perform(multi.get(), &running);
    int left = 0;
    while (const CURLMsg* const message = curl_multi_info_read(multi.get(), &left)) {
      if (message->msg == CURLMSG_DONE) {
        char* row = nullptr;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &row);
        Question& question = questions[reinterpret_cast<std::size_t>(row)];
        sink(reinterpret_cast<std::size_t>(row), outcome_of(question, message->data.result));
      }
    }
    if (running > 0 && state == CURLM_OK) {
      state = curl_multi_poll(multi.get(), nullptr, 0, k_get_look_ms, nullptr);
    }
  }
  for (const Question& question : questions) {
    curl_multi_remove_handle(multi.get(), question.handle.get());
  }
}

}  // namespace
}  // namespace commlens

extern "C" __attribute__((visibility("default"))) void commlens_http_get(
    const commlens::GetRequest& request, const std::function<bool()>& is_stopped,
    const std::function<void(std::size_t row, commlens::GetOutcome&& outcome)>& sink) {
  commlens::get_all(request, is_stopped, sink);
}
