#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "commlens/app/reproduce/items.hpp"

namespace commlens::study {

/// Texts around the items.
struct PageHead {
  std::string title;
  std::string subtitle;
  std::string verdict;  // one sentence
  bool holds = true;
};

/// One self-contained HTML page.
std::string page_html(const PageHead& head, const std::vector<MadeItem>& items);
/// The same in Markdown, charts as tables.
std::string page_markdown(const PageHead& head, const std::vector<MadeItem>& items);

/// Writes figures/ID.json and figures/ID.csv of an item, and a picture of each panel. Throws SystemError.
void write_item(const std::filesystem::path& directory, const MadeItem& made);

}  // namespace commlens::study
