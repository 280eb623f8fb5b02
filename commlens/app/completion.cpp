#include "commlens/app/completion.hpp"

#include <map>
#include <vector>

#include <fmt/format.h>

#include "commlens/base/text.hpp"

namespace commlens {
namespace {

using Completes = OptionHelp::Completes;

std::string bash_words(const std::string& words) {
  return fmt::format("mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$word\")", words);
}

std::string bash_value(const OptionHelp& option) {
  const std::string words = fmt::format("{}", fmt::join(option.words, " "));
  switch (option.completes) {
    case Completes::nothing:
      return ":";
    case Completes::words:
      return bash_words(words);
    case Completes::file:
      return option.words.empty() ? "_commlens_files -f" : fmt::format("_commlens_files -f -W '{}'", words);
    case Completes::directory:
      return "_commlens_files -d";
  }
  return ":";
}

/// The words that may follow a verb: values of its options, their names, its arguments.
std::string bash_verb(const VerbHelp& verb) {
  std::map<std::string, std::string> values;  // completions of values -> options that take them
  std::string names;
  std::string arguments = ":";
  for (const OptionHelp& option : verb.options) {
    if (option.is_positional) {
      arguments = bash_value(option);
      continue;
    }
    names += fmt::format("{}{}", names.empty() ? "" : " ", fmt::join(option.names, " "));
    if (!option.value.empty()) {
      std::string& alike = values[bash_value(option)];
      alike += fmt::format("{}{}", alike.empty() ? "" : "|", fmt::join(option.names, "|"));
    }
  }
  std::string cases;
  for (const auto& [completion, alike] : values) {
    cases += fmt::format("        {}) {}; return ;;\n", alike, completion);
  }
  return fmt::format(
      "    {}) case $before in\n{}      esac\n"
      "      case $word in -*) {} ;; *) {} ;; esac ;;\n",
      verb.name, cases, bash_words(names), arguments);
}

/// Text in the brackets of zsh's _arguments, within single quotes.
std::string zsh_text(std::string text) {
  for (const char* const special : {"\\", "[", "]", ":"}) {
    text = replaced(text, special, std::string("\\") + special);
  }
  return replaced(text, "'", R"('\'')");
}

std::string zsh_value(const OptionHelp& option) {
  const std::string words = fmt::format("({})", fmt::join(option.words, " "));
  const bool has_words = !option.words.empty();
  switch (option.completes) {
    case Completes::nothing:
      return " ";
    case Completes::words:
      return words;
    case Completes::file:
      return has_words ? fmt::format(" _alternative \"models\\:model\\:{}\" \"files\\:file\\:_files\"", words)
                       : "_files";
    case Completes::directory:
      return "_files -/";
  }
  return " ";
}

std::string zsh_option(const OptionHelp& option) {
  if (option.is_positional) {
    return fmt::format(" \\\n        '{}:{}:{}'", option.is_repeated ? "*" : "",
                       zsh_text(option.names.front()), zsh_value(option));
  }
  std::string specs;
  for (const std::string& name : option.names) {
    specs += fmt::format(
        " \\\n        '{}{}[{}]{}'", option.is_repeated ? "*" : "", name, zsh_text(option.help),
        option.value.empty() ? "" : fmt::format(":{}:{}", zsh_text(option.value), zsh_value(option)));
  }
  return specs;
}

}  // namespace

std::string bash_completion(const std::vector<VerbHelp>& verbs) {
  std::string names;
  std::string cases;
  for (const VerbHelp& verb : verbs) {
    names += (names.empty() ? "" : " ") + verb.name;
    cases += bash_verb(verb);
  }
  return fmt::format(
      R"(# bash completion of commlens; made of its options
_commlens_files() {{
  compopt -o filenames
  mapfile -t COMPREPLY < <(compgen "$@" -- "$word")
}}

_commlens() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} verb=${{COMP_WORDS[1]}} at
  COMPREPLY=()
  if [ "$word" = = ]; then word=; elif [ "$before" = = ]; then before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
  if [ "$COMP_CWORD" -eq 1 ]; then
    {}
    return
  fi
  for ((at = 2; at < COMP_CWORD; ++at)); do  # another program's arguments
    if [ "${{COMP_WORDS[at]}}" = -- ]; then
      if [ $((at + 1)) -eq "$COMP_CWORD" ]; then _commlens_files -c; else _commlens_files -f; fi
      return
    fi
  done
  case $verb in
{}  esac
}}
complete -F _commlens commlens
)",
      bash_words(names + " --help --version"), cases);
}

std::string zsh_completion(const std::vector<VerbHelp>& verbs) {
  std::string names;
  std::string cases;
  for (const VerbHelp& verb : verbs) {
    names += fmt::format("    '{}:{}'\n", verb.name, zsh_text(verb.description));
    std::string specs;
    for (const OptionHelp& option : verb.options) {
      specs += zsh_option(option);
    }
    cases += fmt::format("      {}) _arguments -s{} ;;\n", verb.name, specs);
  }
  return fmt::format(
      R"(#compdef commlens
# zsh completion of commlens; made of its options
_commlens() {{
  local -a verbs=(
{}  )
  local context state state_descr line
  typeset -A opt_args
  _arguments -C '(- *)--version[Print the version]' '(- *)'{{-h,--help}}'[Print help]' '1:verb:->verb' '*::argument:->argument'
  case $state in
    verb) _describe -t verbs verb verbs ;;
    argument) case $line[1] in
{}    esac ;;
  esac
}}
_commlens "$@"
)",
      names, cases);
}

}  // namespace commlens
