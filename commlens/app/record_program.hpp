#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace commlens {

/// The executable for a word of a command line: a path, or a name looked up in PATH. std::nullopt if there is
/// none that may be run.
std::optional<std::filesystem::path> executable_of(const std::string& word);

/// Names of the shared libraries of the program in `file`, direct and indirect, as resolved by the system's
/// loader ("libmpi.so.40"). Empty for scripts, static programs and other machines' programs. The program
/// itself is not run.
std::vector<std::string> libraries_of(const std::filesystem::path& file);

/// The standard output of a program; empty if it cannot be run.
std::string output_of(const std::vector<std::string>& command);

/// The MPI libraries with a capture library.
enum class MpiLibrary : std::uint8_t { openmpi, mpich };
std::string_view name_of(MpiLibrary library);   // "openmpi", as --mpi takes it
std::string_view title_of(MpiLibrary library);  // "Open MPI"
std::optional<MpiLibrary> mpi_library_from(std::string_view name);

/// The MPI to which one of these libraries belongs.
std::optional<MpiLibrary> mpi_among(const std::vector<std::string>& libraries);

/// The MPI of a launcher, from its name or else from the output of --version. std::nullopt if it is not an
/// MPI launcher.
std::optional<MpiLibrary> launcher_of(const std::filesystem::path& file);

/// The launcher of an MPI in PATH: mpirun.NAME as Debian has it, or mpirun when it is that MPI's.
std::optional<std::filesystem::path> launcher_in_path(MpiLibrary mpi);

/// A choice and its origin, for people.
struct ChosenMpi {
  MpiLibrary library = MpiLibrary::openmpi;
  std::string reason;
  bool is_sure = true;  // false: assumed
};

/// The MPI of a command: that of the first program in it that is linked with one, else that of its launcher,
/// of Python's mpi4py, of the launcher that started this process, of the `mpirun` in PATH. std::nullopt if no
/// MPI is found on the machine.
std::optional<ChosenMpi> mpi_of_command(const std::vector<std::string>& command);

}  // namespace commlens
