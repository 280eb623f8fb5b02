#include "commlens/engine/data/byte_tokens.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "commlens/base/units.hpp"
#include "commlens/trace/mapped_file.hpp"

namespace commlens::engine {
namespace {

class ByteTokens : public TokenSource {
 public:
  ByteTokens(MappedFile text, std::string name) : text_(std::move(text)), name_(std::move(name)) {}

  std::int64_t vocab() const override { return 256; }
  std::int64_t size() const override { return static_cast<std::int64_t>(text_.bytes().size()); }
  void read(std::int64_t first, std::span<std::int64_t> into) const override {
    const auto part = text_.bytes().subspan(static_cast<std::size_t>(first), into.size());
    std::transform(part.begin(), part.end(), into.begin(),
                   [](std::byte value) { return std::to_integer<std::int64_t>(value); });
  }
  std::string description() const override { return fmt::format("{}, {} bytes", name_, with_commas(size())); }

 private:
  MappedFile text_;
  std::string name_;
};

}  // namespace

Result<std::unique_ptr<TokenSource>> open_bytes(const std::filesystem::path& file) {
  Result<MappedFile> text = MappedFile::open(file);
  if (!text) {
    return tl::unexpected(text.error());
  }
  if (text->bytes().empty()) {
    return failure(fmt::format("{}: the file is empty; give a text to train on", file.string()));
  }
  return std::make_unique<ByteTokens>(std::move(*text), file.filename().string());
}

}  // namespace commlens::engine
