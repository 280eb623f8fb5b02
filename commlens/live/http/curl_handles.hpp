#pragma once
#include <memory>
#include <mutex>

#include <curl/curl.h>

// Of libcommlens-live.so alone: what libcurl gives is given back.
namespace commlens {

struct CurlDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(CURLM* handle) const { curl_multi_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using CurlHandle = std::unique_ptr<CURL, CurlDeleter>;
using CurlHandles = std::unique_ptr<CURLM, CurlDeleter>;
using CurlList = std::unique_ptr<curl_slist, CurlDeleter>;

/// Before the first handle.
inline void begin_curl() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

}  // namespace commlens
