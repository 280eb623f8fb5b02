#include "commlens/cli/verb_help.hpp"

#include <regex>

#include <CLI/CLI.hpp>

#include "commlens/frameworks/built_in_layouts.hpp"
#include "commlens/frameworks/frameworks.hpp"
#include "commlens/frameworks/presets.hpp"

namespace commlens {
namespace {

std::vector<std::string> words_in(const std::string& text) {
  const std::regex word("[A-Za-z0-9_.-]+");
  std::vector<std::string> words;
  for (std::sregex_iterator at(text.begin(), text.end(), word); at != std::sregex_iterator(); ++at) {
    words.push_back(at->str());
  }
  return words;
}

/// The values of an option, from what its help shows: "TEXT:{json,csv}", "on|off", or "fp32, fp16 or bf16".
std::vector<std::string> choices_of(const std::string& type, const std::string& help) {
  std::smatch found;
  if (std::regex_search(type, found, std::regex(R"(\{([^}]*)\})"))) {
    return words_in(found[1]);
  }
  if (type.find('|') != std::string::npos) {
    return words_in(type);
  }
  if (std::regex_search(help, found, std::regex(R"(^([a-z0-9]+(, [a-z0-9]+)*) or ([a-z0-9]+)(:|$))"))) {
    return words_in(found[1].str() + " " + found[3].str());
  }
  return {};
}

bool is_path(const OptionHelp& option) {
  constexpr std::string_view kinds[] = {"FILE", "TRACE", "CONFIG", "A", "B", "TRACE|CONFIG"};
  const std::string& kind = option.is_positional ? option.names.front() : option.value;
  return std::find(std::begin(kinds), std::end(kinds), kind) != std::end(kinds);
}

void complete(OptionHelp& option, const std::string& type) {
  using Completes = OptionHelp::Completes;
  option.words =
      option.names.back() == "--framework" ? words_in(framework_names()) : choices_of(type, option.help);
  const bool takes_config = option.is_positional && option.names.front().find("TRACE") != 0;
  if (is_path(option) && takes_config && option.names.front() != "FILE") {
    const std::vector<std::string_view> presets = preset_names();
    option.words.assign(presets.begin(), presets.end());
    const std::vector<std::string_view> layouts = built_in_layout_names();
    option.words.insert(option.words.end(), layouts.begin(), layouts.end());
  }
  option.completes = is_path(option) || option.names.back() == "--output" ? Completes::file
                     : !option.words.empty()                              ? Completes::words
                                                                          : Completes::nothing;
  if (option.value == "DIR") {
    option.completes = Completes::directory;
  }
}

OptionHelp help_of(const CLI::Option& option) {
  OptionHelp help;
  help.is_positional = option.get_positional();
  if (help.is_positional) {
    help.names = {option.get_name(true, false)};
  }
  for (const std::string& name : option.get_snames()) {
    help.names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    help.names.push_back("--" + name);
  }
  const std::string type = option.get_type_name();
  help.value = option.get_items_expected_max() == 0 ? "" : type.substr(0, type.find(':'));
  help.help = option.get_description();
  help.usual = option.get_default_str();
  help.group = option.get_group();
  help.is_required = option.get_required();
  help.is_repeated = option.get_expected_max() > 1;
  complete(help, type);
  return help;
}

std::vector<OptionHelp> options_shown(const CLI::App& verb) {
  std::vector<OptionHelp> options;
  for (const CLI::Option* const option : verb.get_options()) {
    if (!option->get_group().empty()) {
      options.push_back(help_of(*option));
    }
  }
  return options;
}

}  // namespace

std::vector<VerbHelp> verb_helps(const CLI::App& program) {
  std::vector<VerbHelp> verbs;
  for (const CLI::App* const verb : program.get_subcommands([](const CLI::App*) { return true; })) {
    if (!verb->get_group().empty()) {
      verbs.push_back({verb->get_name(), verb->get_description(), verb->get_footer(), options_shown(*verb)});
    }
  }
  return verbs;
}

}  // namespace commlens
