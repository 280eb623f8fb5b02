#pragma once
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/comm/event.hpp"
#include "commlens/comm/group.hpp"

namespace commlens {

/// Writes one JSON object, on one line; the end of its life is the end of the object. May throw
/// std::bad_alloc there, too, but not while another exception is under way, when nobody wants the object any
/// more.
class JsonObject {
 public:
  explicit JsonObject(std::string& out) : out_(out) { out_ += '{'; }
  ~JsonObject() noexcept(false) {  // NOLINT(performance-noexcept-destructor): see above
    if (std::uncaught_exceptions() == exceptions_) {
      out_ += '}';
    }
  }
  JsonObject(const JsonObject&) = delete;
  JsonObject& operator=(const JsonObject&) = delete;

  void text(std::string_view key, std::string_view value);
  void number(std::string_view key, std::int64_t value);
  void number_unless(std::string_view key, std::int64_t value, std::int64_t usual);
  void flag(std::string_view key, bool value);
  /// Appends the key; the caller writes the value.
  std::string& opened(std::string_view key);

 private:
  std::string& out_;
  int exceptions_ = std::uncaught_exceptions();
  bool is_first_ = true;
};

/// Appends a row of `groups`: a list of ranks, and of which communicator where that is known.
void append_group_row(std::string& out, const std::vector<Rank>& members, Axis axis,
                      CommunicatorId communicator = k_no_communicator);

/// Appends a row of `groups`: the ranks that row `alike` of the same table has, in another communicator.
void append_group_row_alike(std::string& out, GroupId alike, Axis axis, CommunicatorId communicator);

/// Appends a row of `groups`: so many ranks that nobody named.
void append_hidden_group_row(std::string& out, std::int64_t size, std::string_view name, Axis axis);

/// Appends a row of `ops`; its group, tag, rule and name are rows of the same file.
void append_op_row(std::string& out, const CommOp& op);

}  // namespace commlens
