#include "commlens/cli/layout_flags.hpp"

#include <string>

#include <CLI/CLI.hpp>

namespace commlens {

void LayoutFlags::declare(CLI::App& verb, Verb kind) {
  const char* group = kind == Verb::predict ? "Layout (a comma list sweeps)" : "Layout";
  for (const LayoutOption& option : layout_options()) {
    const std::string name = option.name;
    if (name == "--iterations" && (kind == Verb::other || kind == Verb::trained)) {
      continue;
    }
    const std::string help = help_of(option);
    // What no rules of the verb have is refused by name, and not in its help.
    const bool is_shown = kind != Verb::trained || option.is_covered == nullptr;
    if (option.value[0] == '\0') {
      verb.add_flag_callback(name, [this, name] { given_[name] = ""; }, help)->group(group);
      continue;
    }
    const auto store = [this, name](const std::string& text) { given_[name] = text; };
    verb.add_option_function<std::string>(name, store, help)
        ->type_name(option.value)
        ->group(is_shown ? group : "");
  }
  if (kind != Verb::predict) {
    return;
  }
  verb.add_option("--gpus-per-node", ranks_per_node_, "Split bytes into those within and between nodes")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->type_name("N")
      ->group(group);
}

}  // namespace commlens
