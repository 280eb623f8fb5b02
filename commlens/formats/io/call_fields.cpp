#include "commlens/formats/io/call_fields.hpp"

#include <array>

namespace commlens::formats {
namespace {

constexpr std::string_view k_compute = "compute";

template <typename Enum>
std::string_view text_of(const Word<Enum>& word) {
  return word.known ? name_of(*word.known) : std::string_view(word.unknown);
}

constexpr CallField::Vocabulary k_phase = {
    [](CallRecord& record, std::string_view text) { record.phase = phase_from(text); },
    [](const CallRecord& record) {
      return record.phase == Phase::other ? std::string_view() : name_of(record.phase);
    }};

constexpr CallField::Vocabulary k_op = {
    [](CallRecord& record, std::string_view text) {
      record.is_compute = text == k_compute;
      record.op = record.is_compute ? Word<CommKind>() : op_word(text);
    },
    [](const CallRecord& record) { return record.is_compute ? k_compute : text_of(record.op); }};

constexpr CallField::Vocabulary k_dtype = {
    [](CallRecord& record, std::string_view text) { record.dtype = dtype_word(text); },
    [](const CallRecord& record) { return text_of(record.dtype); }};

constexpr CallField::Vocabulary k_match = {
    [](CallRecord& record, std::string_view text) { record.match = match_word(text); },
    [](const CallRecord& record) { return text_of(record.match); }};

/// A word that describes a call: `usual` is its absence, and what a text becomes that is no such word.
template <auto Member, auto From, auto otherwise>
constexpr CallField::Vocabulary k_word = {[](CallRecord& record, std::string_view text) {
                                            if (!text.empty()) {
                                              record.*Member = From(text).value_or(otherwise);
                                            }
                                          },
                                          [](const CallRecord& record) {
                                            const auto value = record.*Member;
                                            return value == decltype(value){} ? std::string_view()
                                                                              : name_of(value);
                                          }};

const std::array<CallField, 29> k_fields = {
    {{"rank", &CallRecord::rank},
     {"iteration", &CallRecord::iteration},
     {"phase", k_phase},
     {"op", k_op},
     {"dtype", k_dtype},
     {"input_bytes", &CallRecord::input_bytes},
     {"output_bytes", &CallRecord::output_bytes},
     {"group", &CallRecord::group},
     {"group_size", &CallRecord::group_size},
     {"group_name", &CallRecord::group_name},
     {"root", &CallRecord::root},
     {"peer", &CallRecord::peer},
     {"micro_batch", &CallRecord::micro_batch},
     {"tag", &CallRecord::tag},
     {"rule", &CallRecord::rule},
     {"name", &CallRecord::name},
     {"site", &CallRecord::site},
     {"start_ns", &CallRecord::start_ns},
     {"duration_ns", &CallRecord::duration_ns},
     {"data_dependent", &CallRecord::data_dependent},
     {"rounding_bytes", &CallRecord::rounding_bytes},
     {"communicator", CallField::Label{&CallRecord::communicator}},
     {"axis", &CallRecord::axis},
     {"match", k_match},
     {"reduce_op", k_word<&CallRecord::reduction, reduction_from, Reduction::other>},
     {"algorithm", k_word<&CallRecord::algorithm, algorithm_from, Algorithm::unknown>},
     {"protocol", k_word<&CallRecord::protocol, protocol_from, Protocol::unknown>},
     {"blocking", &CallRecord::blocking},
     {"note", &CallRecord::note}}};

}  // namespace

std::span<const CallField> call_fields() { return k_fields; }

bool CallField::set_text(CallRecord& record, std::string_view text) const {
  if (const auto* const plain = std::get_if<Text>(&member)) {
    record.** plain = text;
  } else if (const auto* const label = std::get_if<Label>(&member)) {
    record.*(label->text) = text;
  } else if (const auto* const vocabulary = std::get_if<Vocabulary>(&member)) {
    vocabulary->set(record, text);
  } else {
    return false;
  }
  return true;
}

std::string_view CallField::text_in(const CallRecord& record) const {
  if (const auto* const plain = std::get_if<Text>(&member)) {
    return record.**plain;
  }
  if (const auto* const label = std::get_if<Label>(&member)) {
    return record.*(label->text);
  }
  const auto* const vocabulary = std::get_if<Vocabulary>(&member);
  return vocabulary == nullptr ? std::string_view() : vocabulary->text(record);
}

std::string_view expected_value(const CallField& field) {
  constexpr std::array<std::string_view, 6> expected = {"an integer below 2^63",  "a string",
                                                        "an array of ranks",      "true or false",
                                                        "a string or an integer", "a string"};
  return expected.at(field.member.index());
}

}  // namespace commlens::formats
