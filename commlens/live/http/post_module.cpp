// The part of libcommlens-live.so that needs libcurl, loaded by http_post_to().
#include <string>

#include "commlens/live/http/curl_handles.hpp"
#include "commlens/live/http/webhook.hpp"

namespace commlens {
namespace {

constexpr long k_limit_ms = 5000;
constexpr int k_look_ms = 100;

std::size_t ignore_answer(char* /*text*/, std::size_t size, std::size_t count, void* /*unused*/) {
  return size * count;
}

void post_once(const std::string& url, const std::string& body, const std::function<bool()>& is_stopped,
               PostOutcome& outcome) {
  begin_curl();
  const CurlHandle easy(curl_easy_init());
  const CurlHandles multi(curl_multi_init());
  const CurlList headers(curl_slist_append(nullptr, "Content-Type: application/json"));
  if (easy == nullptr || multi == nullptr || headers == nullptr ||
      curl_slist_append(headers.get(), "Expect:") == nullptr) {
    outcome.why = "no memory";
    return;
  }
  CURL* const handle = easy.get();
  if (curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK ||
      curl_easy_setopt(handle, CURLOPT_URL, url.c_str()) != CURLE_OK) {
    outcome.why = "libcurl takes no http";
    return;
  }
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(handle, CURLOPT_USERAGENT, "commlens");
  curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(handle, CURLOPT_POSTFIELDS, body.c_str());  // not copied
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, k_limit_ms);
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);  // does not wait for names that nobody resolves
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &ignore_answer);
  curl_multi_add_handle(multi.get(), handle);
  int running = 1;
  CURLMcode state = CURLM_OK;
  while (running > 0 && state == CURLM_OK && !is_stopped()) {
    state = curl_multi_perform(multi.get(), &running);
    if (running > 0 && state == CURLM_OK) {
      state = curl_multi_poll(multi.get(), nullptr, 0, k_look_ms, nullptr);
    }
  }
  int left = 0;
  const CURLMsg* const message = curl_multi_info_read(multi.get(), &left);
  if (message == nullptr || message->msg != CURLMSG_DONE) {
    outcome.why = "it was stopped";
  } else if (message->data.result != CURLE_OK) {
    outcome.why = curl_easy_strerror(message->data.result);
  } else {
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    outcome.status = static_cast<int>(status);
  }
  curl_multi_remove_handle(multi.get(), handle);
}

}  // namespace
}  // namespace commlens

extern "C" __attribute__((visibility("default"))) void commlens_http_post(
    const std::string& url, const std::string& body, const std::function<bool()>& is_stopped,
    commlens::PostOutcome& outcome) {
  commlens::post_once(url, body, is_stopped, outcome);
}
