#pragma once
#include <string>

#include "commlens/base/result.hpp"

namespace commlens {

/// Fails where `path`, given as `flag` ("-o"), can take no file: it is a folder, stands in none, or in one in
/// which nothing can be made. Asked before the work, since the place is the user's choice; a disk that is
/// full by then is the system's fault. "-" passes, and devices that can be written.
Result<void> check_file_place(const std::string& flag, const std::string& path);

/// The same of a folder that is written whole; those it stands in are made with it.
Result<void> check_folder_place(const std::string& flag, const std::string& path);

}  // namespace commlens
