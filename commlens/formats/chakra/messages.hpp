#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/line_reader.hpp"

namespace commlens::formats::chakra {

/// A named value of a Chakra node or file; nothing where it is of a type that we neither read nor write.
/// Whole numbers are read as 64 bits whatever their width; some are written as 32, where Chakra's tools look
/// there.
struct ChakraAttribute {
  using Value = std::variant<std::monostate, std::int64_t, std::int32_t, double, bool, std::string>;
  std::string name;
  Value value;
};

/// The attributes of one node or file.
class ChakraAttributes {
 public:
  void add(std::string_view name, ChakraAttribute::Value value) {
    list_.push_back({std::string(name), std::move(value)});
  }
  const std::vector<ChakraAttribute>& list() const { return list_; }

  /// The first attribute of that name and type; else nothing. A whole number is found whatever its width.
  std::optional<std::int64_t> integer(std::string_view name) const;
  std::optional<bool> flag(std::string_view name) const;
  std::string_view text(std::string_view name) const;  // empty when there is none

 private:
  const ChakraAttribute* find(std::string_view name) const;
  std::vector<ChakraAttribute> list_;
};

/// What a node is. Source: MLCommons Chakra schema/protobuf/et_def.proto, NodeType.
enum class ChakraNodeType : std::uint8_t {
  invalid = 0,
  metadata = 1,
  memory_load = 2,
  memory_store = 3,
  compute = 4,
  send = 5,
  receive = 6,
  collective = 7,
  other = 8  // and above: storage, batches, checkpoints
};

/// A node of the graph that one rank executes. Times are whole microseconds, 0 where the file does not tell.
struct ChakraNode {
  std::uint64_t id = 0;
  std::string name;
  ChakraNodeType type = ChakraNodeType::invalid;
  std::vector<std::uint64_t> control_dependencies;
  std::vector<std::uint64_t> data_dependencies;
  std::uint64_t start_us = 0;
  std::uint64_t duration_us = 0;
  std::string input_values;  // lists in the notation of Python
  std::string input_types;
  std::string output_values;
  ChakraAttributes attributes;
};

/// The head of a Chakra file.
struct ChakraMetadata {
  std::string version;
  ChakraAttributes attributes;
};

/// Reads a Chakra file (.gz too), a message at a time: each stands behind its length, a varint.
class ChakraReader {
 public:
  static constexpr std::size_t k_longest_message = std::size_t{16} << 20;

  explicit ChakraReader(TextSource source) : source_(std::move(source)) {}

  /// The first message.
  Result<ChakraMetadata> metadata();
  /// The next message as a node; false at the end of the file. Fails, naming the byte, on what is no node.
  Result<bool> next(ChakraNode& node);
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

/// True when `head`, the begin of a file, is a Chakra file's head and at least one whole node.
bool starts_as_chakra(std::string_view head);

/// Appends the message behind its length to `bytes`.
void append_chakra(const ChakraMetadata& metadata, std::string& bytes);
void append_chakra(const ChakraNode& node, std::string& bytes);

}  // namespace commlens::formats::chakra
