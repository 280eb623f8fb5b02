#include "commlens/formats/io/spool.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "commlens/base/units.hpp"

namespace commlens::formats {
namespace {

constexpr std::size_t k_spool_block = std::size_t{1} << 20;

std::filesystem::path place_for_spools() {
  const char* const given = std::getenv("TMPDIR");
  return given != nullptr && *given != '\0' ? given : "/tmp";
}

std::filesystem::path directory_in(const std::filesystem::path& parent) {
  std::string name = (parent / "commlens-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw SystemError(fmt::format("cannot make a directory in {}: {}; set TMPDIR to one that can be written",
                                  parent.string(), std::strerror(errno)));
  }
  return name;
}

}  // namespace

Spool::Spool(const std::filesystem::path& shown, std::int64_t most)
    : parent_(place_for_spools()),
      directory_(directory_in(parent_)),
      file_(directory_.path() / (shown == "-" ? "input" : shown.filename())),
      shown_(shown == "-" ? "standard input" : shown.string()),
      most_(most) {
  constexpr mode_t ours = 0600;
  descriptor_ = open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, ours);
  if (descriptor_ < 0) {
    throw_cannot_keep(errno);
  }
  std::error_code status;
  const std::filesystem::space_info space = std::filesystem::space(parent_, status);
  if (!status) {
    most_ =
        std::min(most_, static_cast<std::int64_t>(std::min<std::uintmax_t>(space.available / 2, INT64_MAX)));
  }
}

Spool::~Spool() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

Result<bool> Spool::take(TextSource& source, std::int64_t size) {
  std::vector<char> block(k_spool_block);
  while (size > 0) {
    const Result<std::size_t> got =
        source.read(block.data(), static_cast<std::size_t>(std::min(size, std::int64_t{k_spool_block})));
    if (!got) {
      return tl::unexpected(got.error());
    }
    if (*got == 0) {
      return false;
    }
    taken_ += static_cast<std::int64_t>(*got);
    size -= static_cast<std::int64_t>(*got);
    if (taken_ > most_) {
      return failure(
          fmt::format("{}: more than {}, the limit of what a pipe may put into {}; write it into a file and "
                      "name that, or "
                      "set TMPDIR to a directory with more room",
                      shown_, to_text(Bytes{most_}), parent_.string()));
    }
    for (std::string_view rest(block.data(), *got); !rest.empty();) {
      const ssize_t written = write(descriptor_, rest.data(), rest.size());
      if (written < 0 && errno != EINTR) {
        throw_cannot_keep(errno);
      }
      rest.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
    }
  }
  return true;
}

void Spool::throw_cannot_keep(int cause) const {
  throw SystemError(fmt::format("cannot keep what {} holds in {}: {}; set TMPDIR to a directory with room",
                                shown_, parent_.string(), std::strerror(cause)));
}

}  // namespace commlens::formats
