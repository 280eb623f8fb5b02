#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <chakra.pb.h>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/line_reader.hpp"

namespace commlens::formats::chakra {

/// The attributes of a node or of the head of a file. Node, GlobalMetadata and Attribute are protoc's, made
/// of chakra.proto.
using Attributes = std::decay_t<decltype(std::declval<Node>().attributes())>;

/// The first attribute of that name, if it has that type; an integer has it whatever its width.
std::optional<std::int64_t> integer(const Attributes& attributes, std::string_view name);
std::optional<bool> flag(const Attributes& attributes, std::string_view name);
std::string_view text(const Attributes& attributes, std::string_view name);  // empty when there is none

/// Adds an attribute to a node or head, for its value to be set.
template <typename Message>
Attribute& add_attribute(Message& message, std::string_view name) {
  Attribute& attribute = *message.add_attributes();
  attribute.set_name(name.data(), name.size());
  return attribute;
}

/// Reads a Chakra file (.gz too), a message at a time: each comes after its length, a varint.
class Reader {
 public:
  static constexpr std::size_t k_longest_message = std::size_t{16} << 20;

  explicit Reader(TextSource source) : source_(std::move(source)) {}

  /// The first message.
  Result<GlobalMetadata> metadata();
  /// The next message as a node; false at the end of the file. Fails, naming the byte, on what is no node.
  Result<bool> next(Node& node);
  /// Whether the file ended within a message, which is then not returned.
  bool is_cut_off() const { return is_cut_off_; }
  const std::string& name() const { return source_.name(); }

 private:
  Result<bool> next_message();
  Result<bool> fill(std::size_t wanted);
  Error damaged(std::string_view what) const;

  TextSource source_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // unread bytes are [begin_, end_)
  std::size_t end_ = 0;
  std::size_t message_size_ = 0;  // of the message at begin_ - message_size_
  std::int64_t offset_ = 0;       // of the message in the file, for errors
  std::int64_t passed_ = 0;       // bytes of the file before begin_
  bool is_cut_off_ = false;
};

/// Whether a text begins with the head of a Chakra file and a node.
bool starts_as_chakra(std::string_view head);

/// Appends the length of a message, a varint.
void append_length(std::size_t length, std::string& bytes);

/// Appends a message after its length.
template <typename Message>
void append_message(const Message& message, std::string& bytes) {
  append_length(message.ByteSizeLong(), bytes);
  message.AppendToString(&bytes);
}

}  // namespace commlens::formats::chakra
