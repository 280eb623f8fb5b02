// libcommlens-live.so: the part of commlens that needs libmicrohttpd, loaded by start_http_server().
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <microhttpd.h>
#include <netinet/in.h>

#include "commlens/live/http/awaited_requests.hpp"
#include "commlens/live/http/http_policy.hpp"
#include "commlens/live/http/http_server.hpp"

namespace commlens {
namespace {

constexpr unsigned k_idle_seconds = 30;           // then a connection that says nothing is closed
constexpr std::size_t k_long_texts = 8;           // that a stream may be behind
constexpr std::size_t k_header_bytes = 16 << 10;  // of a connection: its request's headers and MHD's own

/// What waits to be sent to one client of a stream. MHD's thread reads, another one adds.
class EventStream {
 public:
  EventStream(MHD_Connection* connection, std::size_t most) : connection_(connection), most_(most) {}

  void add(const SharedText& text) {
    const std::scoped_lock lock(mutex_);
    // What it has not read, however long the new text is. All streams share the texts, so that a few long
    // ones cost little.
    is_over_ = is_over_ || waiting_bytes_ > std::max(most_, k_long_texts * text->size());
    if (!is_over_) {
      waiting_bytes_ += text->size();
      waiting_.push_back(text);
    } else {
      waiting_.clear();
    }
    resume();
  }

  void end() {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
    resume();
  }

  ssize_t read(char* into, std::size_t most) {
    const std::scoped_lock lock(mutex_);
    if (is_over_) {
      return MHD_CONTENT_READER_END_OF_STREAM;
    }
    if (waiting_.empty()) {
      MHD_suspend_connection(connection_);
      is_suspended_ = true;
      return 0;
    }
    const std::string& text = *waiting_.front();
    const std::size_t bytes = std::min(most, text.size() - sent_of_first_);
    std::memcpy(into, text.data() + sent_of_first_, bytes);
    sent_of_first_ += bytes;
    waiting_bytes_ -= bytes;
    if (sent_of_first_ == text.size()) {
      waiting_.pop_front();
      sent_of_first_ = 0;
    }
    return static_cast<ssize_t>(bytes);
  }

 private:
  void resume() {
    if (is_suspended_) {
      is_suspended_ = false;
      MHD_resume_connection(connection_);
    }
  }

  std::mutex mutex_;
  MHD_Connection* connection_;
  std::size_t most_;
  std::deque<SharedText> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::size_t sent_of_first_ = 0;
  bool is_suspended_ = false;
  bool is_over_ = false;
};

std::string header(MHD_Connection* connection, const char* name) {
  const char* const value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? "" : value;
}

void release_text(void* text) { delete static_cast<SharedText*>(text); }

class MicroHttpServer final : public HttpServer {
 public:
  MicroHttpServer(HttpSettings settings, HttpHandler& handler)
      : settings_(std::move(settings)), handler_(&handler), awaited_(settings_.longest_request) {}

  ~MicroHttpServer() override {
    if (daemon_ == nullptr) {
      return;
    }
    {
      const std::scoped_lock lock(mutex_);
      is_ending_ = true;
    }
    for (const std::shared_ptr<EventStream>& stream : open_streams()) {
      stream->end();  // MHD does not end while a connection is suspended
    }
    MHD_stop_daemon(daemon_);
  }

  /// Why it could not start; empty where it could.
  std::string start() {
    sockaddr_storage place{};
    const bool is_six = settings_.address.find(':') != std::string::npos;
    if (is_six) {
      auto& six = reinterpret_cast<sockaddr_in6&>(place);
      six.sin6_family = AF_INET6;
      six.sin6_port = htons(settings_.port);
      inet_pton(AF_INET6, settings_.address.c_str(), &six.sin6_addr);
    } else {
      auto& four = reinterpret_cast<sockaddr_in&>(place);
      four.sin_family = AF_INET;
      four.sin_port = htons(settings_.port);
      inet_pton(AF_INET, settings_.address.c_str(), &four.sin_addr);
    }
    const bool is_own = is_loopback(settings_.address);
    errno = 0;
    daemon_ = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
            static_cast<unsigned>(is_six ? MHD_USE_IPv6 : MHD_NO_FLAG),
        settings_.port, nullptr, nullptr, &MicroHttpServer::answer, this, MHD_OPTION_SOCK_ADDR,
        reinterpret_cast<sockaddr*>(&place), MHD_OPTION_CONNECTION_LIMIT, settings_.most_connections,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, is_own ? settings_.most_connections : settings_.most_of_address,
        MHD_OPTION_CONNECTION_TIMEOUT, k_idle_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, k_header_bytes,
        MHD_OPTION_NOTIFY_CONNECTION, &MicroHttpServer::notice, this, MHD_OPTION_NOTIFY_COMPLETED,
        &MicroHttpServer::has_answered, this, MHD_OPTION_EXTERNAL_LOGGER, &MicroHttpServer::ignore, nullptr,
        MHD_OPTION_END);
    if (daemon_ == nullptr) {
      return fmt::format("cannot listen on {} port {}: {}; choose another with --listen", settings_.address,
                         settings_.port, errno == 0 ? "the server did not start" : std::strerror(errno));
    }
    return "";
  }

  std::uint16_t port() const override {
    const MHD_DaemonInfo* const info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT);
    return info == nullptr ? settings_.port : info->port;
  }

  std::size_t streams() const override {
    const std::scoped_lock lock(mutex_);
    return streams_.size();
  }

  void publish(const SharedText& text) override {
    awaited_.end_overdue();
    for (const std::shared_ptr<EventStream>& stream : open_streams()) {
      stream->add(text);
    }
  }

 private:
  struct OpenStream {
    MicroHttpServer* server;
    std::shared_ptr<EventStream> stream;
  };

  void await(MHD_Connection* connection) {
    const MHD_ConnectionInfo* const info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info != nullptr) {
      awaited_.await(connection, info->connect_fd);
    }
  }

  /// A connection was made, or ends; MHD closes its socket afterwards.
  static void notice(void* server, MHD_Connection* connection, void** /*context*/,
                     MHD_ConnectionNotificationCode what) {
    auto& self = *static_cast<MicroHttpServer*>(server);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
      self.await(connection);
    } else {
      self.awaited_.settle(connection);
    }
  }

  /// The next request may come over the same connection.
  static void has_answered(void* server, MHD_Connection* connection, void** /*state*/,
                           MHD_RequestTerminationCode /*how*/) {
    static_cast<MicroHttpServer*>(server)->await(connection);
  }

  static void ignore(void* /*unused*/, const char* /*format*/, va_list /*values*/) {}

  static ssize_t read_stream(void* open, std::uint64_t /*place*/, char* into, std::size_t most) {
    return static_cast<OpenStream*>(open)->stream->read(into, most);
  }

  static void close_stream(void* given) {
    const std::unique_ptr<OpenStream> open(static_cast<OpenStream*>(given));
    const std::scoped_lock lock(open->server->mutex_);
    auto& streams = open->server->streams_;
    streams.erase(std::remove(streams.begin(), streams.end(), open->stream), streams.end());
  }

  std::vector<std::shared_ptr<EventStream>> open_streams() const {
    const std::scoped_lock lock(mutex_);
    return streams_;
  }

  static MHD_Result answer(void* server, MHD_Connection* connection, const char* path, const char* method,
                           const char* /*version*/, const char* /*upload*/, std::size_t* /*upload_size*/,
                           void** /*state*/) {
    return static_cast<MicroHttpServer*>(server)->answer_to(connection, path, method);
  }

  MHD_Result answer_to(MHD_Connection* connection, const char* path, const char* method) {
    awaited_.settle(connection);
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.host = header(connection, MHD_HTTP_HEADER_HOST);
    request.authorization = header(connection, MHD_HTTP_HEADER_AUTHORIZATION);
    request.accept = header(connection, MHD_HTTP_HEADER_ACCEPT);
    std::optional<HttpReply> reply = refusal_of(request, settings_);
    if (!reply) {
      try {
        reply = handler_->answer(request);
      } catch (const std::exception& error) {
        reply = HttpReply{500, "text/plain; charset=utf-8",
                          std::make_shared<const std::string>(fmt::format("{}\n", error.what())), false, ""};
      }
    }
    if (reply->body == nullptr) {
      reply->body = std::make_shared<const std::string>();
    }
    // A client that only asks for the head of a stream would never get to its end.
    const bool is_stream = reply->is_stream && request.method == "GET";
    MHD_Response* const response =
        is_stream ? response_of_stream(connection, reply->body) : response_of_text(reply->body);
    if (response == nullptr) {
      return MHD_NO;
    }
    add_headers(response, *reply);
    const MHD_Result queued = MHD_queue_response(connection, static_cast<unsigned>(reply->status), response);
    MHD_destroy_response(response);
    return queued;
  }

  static MHD_Response* response_of_text(const SharedText& body) {
    auto* const kept = new SharedText(body);  // release_text() deletes it
    // MHD reads the buffer only.
    MHD_Response* const response = MHD_create_response_from_buffer_with_free_callback_cls(
        body->size(), const_cast<char*>(body->data()), &release_text, kept);
    if (response == nullptr) {
      delete kept;
    }
    return response;
  }

  MHD_Response* response_of_stream(MHD_Connection* connection, const SharedText& first) {
    constexpr std::size_t block = 16 << 10;
    auto stream = std::make_shared<EventStream>(connection, settings_.most_waiting_bytes);
    stream->add(first);
    auto open = std::make_unique<OpenStream>(OpenStream{this, stream});
    MHD_Response* const response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, block, &read_stream, open.get(), &close_stream);
    if (response != nullptr) {
      static_cast<void>(open.release());  // close_stream() deletes it
      const std::scoped_lock lock(mutex_);
      if (is_ending_) {
        stream->end();
      }
      streams_.push_back(std::move(stream));
    }
    return response;
  }

  static void add_headers(MHD_Response* response, const HttpReply& reply) {
    const std::array<std::pair<const char*, std::string>, 5> headers{
        {{MHD_HTTP_HEADER_CONTENT_TYPE, reply.type},
         {MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
         {"X-Content-Type-Options", "nosniff"},
         {"Referrer-Policy", "no-referrer"},
         {"Content-Security-Policy",
          reply.security_policy.empty() ? "default-src 'none'" : reply.security_policy}}};
    for (const auto& [name, value] : headers) {
      MHD_add_response_header(response, name, value.c_str());
    }
    constexpr int method_not_allowed = 405;
    constexpr int unauthorized = 401;
    if (reply.status == method_not_allowed) {
      MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    } else if (reply.status == unauthorized) {
      MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    }
  }

  HttpSettings settings_;
  HttpHandler* handler_;
  AwaitedRequests awaited_;
  MHD_Daemon* daemon_ = nullptr;
  mutable std::mutex mutex_;
  bool is_ending_ = false;
  std::vector<std::shared_ptr<EventStream>> streams_;
};

}  // namespace
}  // namespace commlens

extern "C" __attribute__((visibility("default"))) void commlens_http_server(
    const commlens::HttpSettings& settings, commlens::HttpHandler& handler,
    std::unique_ptr<commlens::HttpServer>& server, std::string& why) {
  auto started = std::make_unique<commlens::MicroHttpServer>(settings, handler);
  why = started->start();
  if (why.empty()) {
    server = std::move(started);
  }
}
