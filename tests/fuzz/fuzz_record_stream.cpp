// The lines that a reader in a process of its own (formats/otf2/isolated) sends: that process may be
// corrupted. Covers RecordDecoder, parse_call_line and CallBuilder, not the pipe.
#include <algorithm>

#include "commlens/formats/otf2/record_stream.hpp"
#include "tests/fuzz/input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  std::string_view text = commlens::as_text(bytes, size);
  commlens::formats::CallBuilder calls("fuzz", "input");
  commlens::formats::otf2::RecordDecoder decoder(calls);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    static_cast<void>(decoder.take(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  static_cast<void>(calls.finish());
  return 0;
}
