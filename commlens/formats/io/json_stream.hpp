#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "commlens/base/result.hpp"
#include "commlens/formats/io/line_reader.hpp"

namespace commlens::formats {

/// Reads a JSON text (.gz too) of any size whose bulk is one array: a member of the top-level object, or the
/// whole text. Hands out pieces that a JSON parser takes one by one, so that memory stays bounded. The pieces
/// are found by their brackets and quotes; whether they are valid JSON is for that parser to say.
class JsonStream {
 public:
  /// The largest member or array element that is handed out; more is an error.
  static constexpr std::size_t k_largest_piece = std::size_t{64} << 20;
  /// Readable bytes after each piece, as simdjson wants them.
  static constexpr std::size_t k_padding = 64;

  struct Piece {
    bool is_run = false;    // whole elements of the array, written as an array of their own
    std::string_view key;   // of a member, as it is between its quotes
    std::string_view json;  // stays valid until the next call
  };

  /// `array` names the member that is handed out in runs. Fails, naming the file, where it cannot be read.
  static Result<JsonStream> open(const std::filesystem::path& path, std::string_view array);

  /// The next member or run of elements; false at the end. Fails, with file and byte, on text that is no
  /// object and no array, and on pieces that are too large.
  Result<bool> next(Piece& piece);

  /// Whether the text ended before its last bracket (a file that was cut off); known at the end.
  bool is_cut_off() const { return is_cut_off_; }
  const std::string& name() const { return source_.name(); }

 private:
  enum class State : std::uint8_t { start, members, elements, finished };

  JsonStream(TextSource source, std::string_view array);

  Result<bool> fill();
  Result<int> peek();
  Result<bool> start();
  Result<bool> next_member(Piece& piece);
  Result<bool> next_run(Piece& piece);
  /// How far a value was looked at, relative to begin_.
  struct ValueScan {
    std::size_t at = 0;
    std::int64_t depth = 0;
    bool in_string = false;
  };
  bool look_for_end(ValueScan& scan) const;
  Result<bool> skip_value_text(std::size_t& length);
  void take_whole_elements();
  void hand_out_run(Piece& piece);
  bool last_is_bracket() const;
  Error wrong(std::string_view what) const;

  TextSource source_;
  std::string array_;
  std::string key_;  // of the member handed out last
  std::vector<char> buffer_;
  std::size_t begin_ = 1;  // unread text is [begin_, end_); the byte before it is ours
  std::size_t end_ = 1;
  std::int64_t dropped_ = 0;  // bytes of the text before buffer_[1]
  bool at_end_ = false;
  bool is_cut_off_ = false;
  bool is_array_text_ = false;  // the text is the array itself
  State state_ = State::start;

  // Of the run at hand, relative to begin_: how far it was looked at, and where its last whole element ends.
  std::size_t looked_at_ = 0;
  std::size_t whole_ = 0;
  std::int64_t depth_ = 0;
  bool in_string_ = false;
  bool has_text_ = false;       // since the last comma
  bool is_array_over_ = false;  // its closing bracket is at looked_at_
  bool is_overwritten_ = false;
  char overwritten_ = 0;  // what stood where the run's closing bracket was put, at begin_
};

/// The elements of a JSON array, by their brackets and quotes.
std::vector<std::string_view> elements_of(std::string_view array);

}  // namespace commlens::formats
