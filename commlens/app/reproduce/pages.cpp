#include "commlens/app/reproduce/pages.hpp"

#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "commlens/app/version.hpp"
#include "commlens/base/file.hpp"
#include "commlens/report/figure_files.hpp"
#include "commlens/report/html.hpp"

namespace commlens::study {
namespace {

/// Rows of a table in Markdown; the files have all.
constexpr std::size_t k_most_markdown_rows = 60;

/// A bar or a line break would end a cell.
std::string cell_text(std::string text) {
  std::string safe;
  for (const char c : text) {
    safe += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
  }
  return safe;
}

void append_markdown_table(std::string& out, const Figure& figure) {
  std::string names;
  std::string rule;
  std::vector<const FigureColumn*> shown;
  for (const FigureColumn& column : figure.columns) {
    if (column.in_table) {
      shown.push_back(&column);
      names += fmt::format("| {} ", cell_text(column.title));
      rule += std::holds_alternative<TextColumn>(column.values) ? "|---" : "|--:";
    }
  }
  out += fmt::format("{}|\n{}|\n", names, rule);
  for (std::size_t row = 0; row < std::min(figure.rows(), k_most_markdown_rows); ++row) {
    for (const FigureColumn* const column : shown) {
      out += fmt::format("| {} ", cell_text(column->cell(row)));
    }
    out += "|\n";
  }
  if (figure.rows() > k_most_markdown_rows) {
    out += fmt::format("\n{} of {} rows; all are in the file of the figure.\n", k_most_markdown_rows,
                       figure.rows());
  }
}

/// "Figure 7" of "Figure 7: Shares of operations under ZeRO".
std::string number_of(const Item& item) { return item.whole.title.substr(0, item.whole.title.find(':')); }

/// Panels with the item's caption, titled by its number.
std::vector<Figure> titled(const Item& item, std::vector<Figure> figures) {
  std::string& caption = figures.front().caption;
  caption = item.whole.caption + (caption.empty() ? "" : " ") + caption;
  for (Figure& figure : figures) {
    figure.title = fmt::format("{}: {}", number_of(item), figure.title);
  }
  return figures;
}

std::string address_of(const Item& item) { return item.whole.id + ".html"; }

/// What the page draws of an item: its panels, the first with the item's caption and the last with its
/// notes, or with a link to the item's own page.
std::vector<Figure> drawn(const Item& item) {
  if (item.panels.empty()) {
    return {item.whole};
  }
  std::vector<Figure> figures = titled(item, item.panels);
  if (item.more.empty()) {
    figures.back().notes = item.whole.notes;
  } else {
    figures.back().links = {
        {fmt::format("The page of {}: times and intervals, tokens, memory, calls, the machine's description",
                     number_of(item)),
         address_of(item)}};
  }
  return figures;
}

/// What the item's own page draws.
std::vector<Figure> drawn_apart(const Item& item) {
  std::vector<Figure> figures = titled(item, item.panels);
  figures.front().caption = item.panels.front().caption;  // the page's head has the item's
  for (const Figure& figure : item.more) {
    figures.push_back(figure);
  }
  figures.back().notes.insert(figures.back().notes.end(), item.whole.notes.begin(), item.whole.notes.end());
  return figures;
}

std::string producer_text() { return fmt::format("commlens {} reproduce", k_version); }

/// "Frontier: Jobs of today", with links to the whole page and to the pages of other items.
std::string apart_html(const PageHead& head, const MadeItem& made, const std::vector<MadeItem>& items) {
  const Item& item = *made.item;
  ReportHead report{item.whole.title, item.whole.caption, producer_text(), {}, {}};
  report.links.push_back({head.title, "index.html"});
  for (const MadeItem& other : items) {
    if (&other != &made && other.item && !other.item->more.empty()) {
      report.links.push_back({number_of(*other.item), address_of(*other.item)});
    }
  }
  std::vector<MadeFigure> figures;
  std::deque<FigureEntry> entries;
  const std::string section = number_of(item);
  for (Figure& figure : drawn_apart(item)) {
    entries.push_back({made.entry->id, made.entry->title, section, nullptr});
    figures.push_back({&entries.back(), std::move(figure)});
  }
  return report_html(report, figures);
}

std::string page_html(const PageHead& head, const std::vector<MadeItem>& items) {
  std::vector<MadeFigure> figures;
  std::deque<FigureEntry> entries;  // figures point at them
  for (const MadeItem& made : items) {
    if (!made.item) {
      entries.push_back({made.entry->id, made.entry->title, made.entry->section, nullptr});
      figures.push_back({&entries.back(), tl::unexpected(made.item.error())});
      continue;
    }
    for (Figure& figure : drawn(*made.item)) {
      entries.push_back({made.entry->id, made.entry->title, made.entry->section, nullptr});
      figures.push_back({&entries.back(), std::move(figure)});
    }
  }
  ReportHead report{head.title, head.subtitle, producer_text(), {}, {}};
  report.verdict.tone = head.holds ? ReportVerdict::Tone::good : ReportVerdict::Tone::neutral;
  report.verdict.sentences = {head.verdict};
  return report_html(report, figures);
}

std::string page_markdown(const PageHead& head, const std::vector<MadeItem>& items) {
  std::string out = fmt::format("# {}\n\n{}\n\n{}\n", head.title, head.subtitle, head.verdict);
  std::string_view section;
  for (const MadeItem& made : items) {
    if (made.entry->section != section) {
      section = made.entry->section;
      out += fmt::format("\n## {}\n", section);
    }
    out += fmt::format("\n### {}\n\n", made.entry->title);
    if (!made.item) {
      out += fmt::format("Not shown: {}.\n", made.item.error().reason);
      continue;
    }
    const Figure& whole = made.item->whole;
    out += fmt::format("{}\n\n", whole.caption);
    append_markdown_table(out, whole);
    out += whole.notes.empty() ? "" : "\n";
    for (const std::string& note : whole.notes) {
      out += fmt::format("* {}\n", note);
    }
  }
  return out;
}

}  // namespace

void write_pages(const std::filesystem::path& directory, const PageHead& head,
                 const std::vector<MadeItem>& items) {
  write_file_atomically(directory / "index.html", page_html(head, items));
  for (const MadeItem& made : items) {
    if (made.item && !made.item->more.empty()) {
      write_file_atomically(directory / address_of(*made.item), apart_html(head, made, items));
    }
  }
  write_file_atomically(directory / "paper.md", page_markdown(head, items));
}

void write_item(const std::filesystem::path& directory, const MadeItem& made, const SvgDrawer* drawer) {
  if (!made.item) {
    return;
  }
  const std::filesystem::path figures = directory / "figures";
  const Figure& whole = made.item->whole;
  write_file_atomically(figures / fmt::format("{}.json", whole.id), figure_json(whole));
  write_file_atomically(figures / fmt::format("{}.csv", whole.id), figure_csv(whole));
  if (drawer == nullptr) {
    return;
  }
  std::vector<Figure> all = drawn(*made.item);
  all.insert(all.end(), made.item->more.begin(), made.item->more.end());
  for (const Figure& figure : all) {
    if (const Result<std::string> svg = drawer->draw(figure); svg && !svg->empty()) {
      write_file_atomically(figures / fmt::format("{}.svg", figure.id), *svg);
    }
  }
}

}  // namespace commlens::study
