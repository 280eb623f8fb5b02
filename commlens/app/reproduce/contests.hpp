#pragma once
#include <optional>
#include <string>
#include <vector>

#include "commlens/app/reproduce/closed_forms.hpp"
#include "commlens/app/reproduce/study.hpp"
#include "commlens/comm/axis.hpp"

namespace commlens::study {

/// A framework that runs what a closed form describes.
struct Contender {
  std::string name;        // "Megatron 0.19, p2p"
  Asked asked;             // its job
  std::size_t form = 0;    // of the contest, that it is compared with
  std::vector<Axis> axes;  // its groups that count
  const char* why = "";    // it departs from the closed form
};

/// One layout by closed forms and by the rules of frameworks.
struct FormContest {
  const char* panel;
  const char* model;
  std::string setting;  // "ep = 8"
  std::vector<ClosedForm> forms;
  std::vector<Contender> contenders;
};

/// Rows of closed forms and frameworks: panel, model, setting, bar, framework, op, axis, rule, part (equal to
/// the closed form, not the closed form, or besides it), calls and bytes of rank 0, source.
class FormSheet {
 public:
  FormSheet();
  void add(Study& study, const FormContest& contest);
  const Sheet& sheet() const { return sheet_; }
  /// What departs, in which settings, by which rules and why; what could not be planned.
  std::vector<std::string> notes() const;

 private:
  /// A framework that does not send what the closed form says.
  struct Departure {
    std::string who;   // "Llama-3 8B, PyTorch 2.15, all-gather"
    std::string form;  // "ring"
    std::vector<std::string> rules;
    std::vector<std::string> settings;
    std::string why;
  };

  void add_departure(Departure departure, std::string setting);
  void add_form(const FormContest& contest, const ClosedForm& form);
  void add_contender(const FormContest& contest, const Contender& contender, const Plan& plan);

  Sheet sheet_;
  std::vector<Departure> departures_;
  std::vector<std::string> refusals_;
};

/// A figure with one panel of bars for each panel of the sheet, by title.
Item item_of(const FormSheet& forms, const char* id, std::string caption,
             const std::vector<std::pair<const char*, const char*>>& titles);

}  // namespace commlens::study
