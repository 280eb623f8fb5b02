#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commlens/app/completion.hpp"
#include "commlens/app/manual.hpp"
#include "commlens/base/file.hpp"
#include "commlens/cli/command.hpp"
#include "commlens/cli/verb_help.hpp"

namespace commlens {
namespace {

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) {
    throw SystemError(fmt::format("cannot make {}: {}", file.parent_path().string(), error.message()));
  }
  write_file_atomically(file, text);
}

constexpr const char* k_help_files_examples = R"(Examples:
  commlens help-files ~/.local/share
bash completes command lines and man finds pages there; zsh needs DIR/zsh/site-functions in its fpath.)";

/// Where shells and man(1) look below /usr/share and ~/.local/share.
Result<ExitCode> write_help_files(Console& console, const std::filesystem::path& folder) {
  CLI::App program("", "commlens");
  declare_verbs(program, [](std::string_view) { return true; });
  const std::vector<VerbHelp> verbs = verb_helps(program);
  write_text(folder / "bash-completion" / "completions" / "commlens", bash_completion(verbs));
  write_text(folder / "zsh" / "site-functions" / "_commlens", zsh_completion(verbs));
  write_text(folder / "man" / "man1" / "commlens.1", program_manual(verbs));
  for (const VerbHelp& verb : verbs) {
    write_text(folder / "man" / "man1" / fmt::format("commlens-{}.1", verb.name), verb_manual(verb));
  }
  console.out << fmt::format("{}: completion for bash and zsh, {} manual pages\n", folder.string(),
                             verbs.size() + 1)
              << std::flush;
  return ExitCode::done;
}

}  // namespace

Action declare_help_files(CLI::App& verb) {
  const auto folder = std::make_shared<std::string>();
  verb.footer(k_help_files_examples);
  verb.add_option("DIR", *folder, "Directory to write them below")->required();
  return [folder](Console& console) { return write_help_files(console, *folder); };
}

}  // namespace commlens
