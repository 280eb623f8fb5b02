#include "commlens/app/record_program.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string_view>
#include <system_error>

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commlens/app/record_child.hpp"

namespace commlens {
namespace {

namespace fs = std::filesystem;

bool is_executable(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0;
}

/// The loader named in an ELF program for this machine; std::nullopt for other files.
std::optional<std::string> loader_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  Elf64_Ehdr header = {};
  if (!in.read(reinterpret_cast<char*>(&header), sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr)) {
    return std::nullopt;
  }
  for (int at = 0; at < header.e_phnum; ++at) {
    Elf64_Phdr segment = {};
    in.seekg(static_cast<std::streamoff>(header.e_phoff + static_cast<std::uint64_t>(at) * sizeof segment));
    if (!in.read(reinterpret_cast<char*>(&segment), sizeof segment)) {
      return std::nullopt;
    }
    if (segment.p_type == PT_INTERP && segment.p_filesz > 1 && segment.p_filesz < 4096) {
      std::string loader(segment.p_filesz - 1, '\0');  // without its zero
      in.seekg(static_cast<std::streamoff>(segment.p_offset));
      return in.read(loader.data(), static_cast<std::streamsize>(loader.size())) ? std::optional(loader)
                                                                                 : std::nullopt;
    }
  }
  return std::nullopt;
}

/// Keeps this process's capture libraries out of programs that are run only to query them.
std::vector<std::string> plain_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("LD_PRELOAD=")) {
      variables.emplace_back(*variable);
    }
  }
  return variables;
}

bool starts_any(const std::vector<std::string>& libraries, std::string_view start) {
  return std::any_of(libraries.begin(), libraries.end(),
                     [&](const std::string& library) { return library.starts_with(start); });
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::optional<MpiLibrary> mpi_of_text(std::string_view text) {
  if (contains(text, "Open MPI") || contains(text, "OpenRTE") || contains(text, "PRRTE")) {
    return MpiLibrary::openmpi;
  }
  return contains(text, "HYDRA") || contains(text, "MPICH") ? std::optional(MpiLibrary::mpich) : std::nullopt;
}

bool is_python(const std::string& word) { return fs::path(word).filename().string().starts_with("python"); }

/// The MPI of the mpi4py that this Python would import, without importing it.
std::optional<MpiLibrary> mpi_of_python(const fs::path& python) {
  std::string directory = output_of({python.string(), "-c",
                                     "import importlib.util as u\ns = u.find_spec('mpi4py')\n"
                                     "print(s.submodule_search_locations[0] if s else '')"});
  while (!directory.empty() && directory.back() == '\n') {
    directory.pop_back();
  }
  std::error_code error;
  if (directory.empty() || !fs::is_directory(directory, error)) {
    return std::nullopt;
  }
  const std::optional<std::string> loader = loader_of(python);
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string file = entry.path().filename().string();
    if (loader && file.starts_with("MPI.") && file.ends_with(".so")) {
      std::vector<std::string> libraries;
      const std::string text = output_of({*loader, "--list", entry.path().string()});
      if (contains(text, "libmpich")) {
        libraries.emplace_back("libmpich.so");
      }
      if (contains(text, "libopen-pal") || contains(text, "libopen-rte")) {
        libraries.emplace_back("libopen-pal.so");
      }
      return mpi_among(libraries);
    }
  }
  return std::nullopt;
}

std::optional<ChosenMpi> chosen(std::optional<MpiLibrary> library, std::string reason, bool is_sure = true) {
  return library ? std::optional(ChosenMpi{*library, std::move(reason), is_sure}) : std::nullopt;
}

/// The MPI of the launcher that started this process.
std::optional<ChosenMpi> mpi_of_environment() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
    return ChosenMpi{MpiLibrary::openmpi, "Open MPI's launcher started this process"};
  }
  if (std::getenv("PMI_RANK") != nullptr) {
    return ChosenMpi{MpiLibrary::mpich, "a PMI launcher started this process"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<fs::path> executable_of(const std::string& word) {
  if (word.empty()) {
    return std::nullopt;
  }
  if (contains(word, "/")) {
    return is_executable(word) ? std::optional<fs::path>(word) : std::nullopt;
  }
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/bin:/bin" : path;
  while (true) {
    const std::string_view directory = rest.substr(0, rest.find(':'));
    fs::path file = fs::path(directory.empty() ? "." : directory) / word;
    if (is_executable(file)) {
      return file;
    }
    if (directory.size() == rest.size()) {
      return std::nullopt;
    }
    rest.remove_prefix(directory.size() + 1);
  }
}

std::string output_of(const std::vector<std::string>& command) {
  std::array<int, 2> ends = {};
  if (command.empty() || pipe2(ends.data(), O_CLOEXEC) != 0) {
    return {};
  }
  std::vector<std::string> words = command;
  std::vector<std::string> variables = plain_environment();
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, words.front().c_str(), &files, nullptr, pointers_to(words).data(),
                                  pointers_to(variables).data());
  posix_spawn_file_actions_destroy(&files);
  close(ends[1]);
  std::string output;
  std::array<char, 4096> block = {};
  for (ssize_t size = 1; failed == 0 && size > 0;) {
    size = read(ends[0], block.data(), block.size());
    output.append(block.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  }
  close(ends[0]);
  if (failed == 0) {
    waitpid(child, nullptr, 0);
  }
  return output;
}

std::vector<std::string> libraries_of(const fs::path& file) {
  const std::optional<std::string> loader = loader_of(file);
  if (!loader) {
    return {};
  }
  // "\tlibmpi.so.40 => /lib/x86_64-linux-gnu/libmpi.so.40 (0x00007f…)"
  const std::string text = output_of({*loader, "--list", file.string()});
  std::vector<std::string> libraries;
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    const std::string name(line.substr(0, line.find(' ')));
    libraries.push_back(fs::path(name).filename().string());
  }
  return libraries;
}

std::string_view name_of(MpiLibrary library) { return library == MpiLibrary::openmpi ? "openmpi" : "mpich"; }

std::string_view title_of(MpiLibrary library) {
  return library == MpiLibrary::openmpi ? "Open MPI" : "MPICH";
}

std::optional<MpiLibrary> mpi_library_from(std::string_view name) {
  return name == "openmpi" ? std::optional(MpiLibrary::openmpi)
         : name == "mpich" ? std::optional(MpiLibrary::mpich)
                           : std::nullopt;
}

// libmpi.so.12 is the name that MPICH and its relatives agreed on, and also that of an old Open MPI, which
// has libopen-pal beside it.
std::optional<MpiLibrary> mpi_among(const std::vector<std::string>& libraries) {
  if (starts_any(libraries, "libopen-pal") || starts_any(libraries, "libopen-rte") ||
      starts_any(libraries, "libmpi.so.40")) {
    return MpiLibrary::openmpi;
  }
  const bool is_mpich = starts_any(libraries, "libmpich") || starts_any(libraries, "libmpi.so.12") ||
                        starts_any(libraries, "libmpi_cray");
  return is_mpich ? std::optional(MpiLibrary::mpich) : std::nullopt;
}

std::optional<MpiLibrary> launcher_of(const fs::path& file) {
  constexpr std::array<std::string_view, 6> launchers = {"mpirun",  "mpiexec", "orterun",
                                                         "prterun", "prun",    "mpiexec.hydra"};
  const std::string given = file.filename().string();
  const bool is_launcher = std::any_of(launchers.begin(), launchers.end(), [&](std::string_view launcher) {
    return given == launcher || given.starts_with(fmt::format("{}.", launcher));
  });
  if (!is_launcher) {
    return std::nullopt;
  }
  std::error_code ignored;
  const std::string real = fs::canonical(file, ignored).filename().string();
  if (contains(real, "openmpi") || contains(real, "orterun") || contains(real, "prte")) {
    return MpiLibrary::openmpi;
  }
  if (contains(real, "hydra") || contains(real, "mpich")) {
    return MpiLibrary::mpich;
  }
  return mpi_of_text(output_of({file.string(), "--version"}));
}

std::optional<fs::path> launcher_in_path(MpiLibrary mpi) {
  for (const std::string& name : {fmt::format("mpirun.{}", name_of(mpi)), std::string("mpirun")}) {
    const std::optional<fs::path> file = executable_of(name);
    if (file && launcher_of(*file) == mpi) {
      return file;
    }
  }
  return std::nullopt;
}

std::optional<ChosenMpi> mpi_of_command(const std::vector<std::string>& command) {
  std::optional<ChosenMpi> launcher;
  for (const std::string& word : command) {
    const std::optional<fs::path> file = executable_of(word);
    if (!file) {
      continue;
    }
    if (const std::optional<MpiLibrary> own = launcher_of(*file)) {
      launcher = launcher ? launcher : chosen(own, fmt::format("{} is its launcher", word));
    } else if (const std::optional<MpiLibrary> linked = mpi_among(libraries_of(*file))) {
      return chosen(linked, fmt::format("{} is linked with it", word));
    } else if (const std::optional<MpiLibrary> python =
                   is_python(word) ? mpi_of_python(*file) : std::nullopt) {
      return chosen(python, fmt::format("{}'s mpi4py is linked with it", word));
    }
  }
  if (launcher) {
    return launcher;
  }
  if (const std::optional<ChosenMpi> started = mpi_of_environment()) {
    return started;
  }
  const std::optional<fs::path> usual = executable_of("mpirun");
  return usual ? chosen(launcher_of(*usual), "mpirun in PATH is its launcher", false) : std::nullopt;
}

}  // namespace commlens
