#include "commlens/app/directory_watch.hpp"

#include <array>
#include <cstddef>
#include <cstring>

#include <sys/inotify.h>
#include <unistd.h>

namespace commlens {

DirectoryWatch::DirectoryWatch(const std::filesystem::path& directory)
    : name_(directory.filename().string()), notes_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
  if (notes_ >= 0) {
    ::inotify_add_watch(notes_, directory.parent_path().c_str(),
                        IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
  }
}

DirectoryWatch::~DirectoryWatch() {
  if (notes_ >= 0) {
    ::close(notes_);
  }
}

bool DirectoryWatch::has_seen_it_go() {
  alignas(inotify_event) std::array<char, 4096> block = {};
  ssize_t got = 0;
  while (notes_ >= 0 && (got = ::read(notes_, block.data(), block.size())) > 0) {
    for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
      inotify_event note = {};
      std::memcpy(&note, block.data() + at, sizeof note);
      const char* const name = block.data() + at + sizeof note;
      const bool is_around = (note.mask & (IN_DELETE_SELF | IN_MOVE_SELF)) != 0;
      const bool is_it = (note.mask & (IN_DELETE | IN_MOVED_FROM)) != 0 && note.len > 0 && name_ == name;
      has_gone_ = has_gone_ || is_around || is_it;
      at += sizeof note + note.len;
    }
  }
  return has_gone_;
}

}  // namespace commlens
