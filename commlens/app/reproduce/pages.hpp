#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "commlens/app/reproduce/items.hpp"
#include "commlens/report/svg.hpp"

namespace commlens::study {

/// Texts around the items.
struct PageHead {
  std::string title;
  std::string subtitle;
  std::string verdict;  // one sentence
  bool holds = true;
};

/// The items as one self-contained HTML page, index.html; those with more of it than that shows on a page
/// each, ID.html; and all of it in Markdown, charts as tables, paper.md. Throws SystemError.
void write_pages(const std::filesystem::path& directory, const PageHead& head,
                 const std::vector<MadeItem>& items);

/// Writes figures/ID.json and figures/ID.csv of an item, and ID.svg of it or of each of its panels that has a
/// chart, where there is a drawer. Throws SystemError.
void write_item(const std::filesystem::path& directory, const MadeItem& made, const SvgDrawer* drawer);

}  // namespace commlens::study
