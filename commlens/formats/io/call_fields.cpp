#include "commlens/formats/io/call_fields.hpp"

#include <array>

namespace commlens::formats {
namespace {

const std::array<CallField, 22> k_fields = {{{"rank", &CallRecord::rank},
                                             {"iteration", &CallRecord::iteration},
                                             {"phase", &CallRecord::phase},
                                             {"op", &CallRecord::op},
                                             {"dtype", &CallRecord::dtype},
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
                                             {"communicator", CallField::Label{&CallRecord::communicator}}}};

}  // namespace

std::span<const CallField> call_fields() { return k_fields; }

std::string_view expected_value(const CallField& field) {
  constexpr std::array<std::string_view, 5> expected = {"a whole number below 2^63", "a string",
                                                        "an array of ranks", "true or false",
                                                        "a string or a whole number"};
  return expected.at(field.member.index());
}

}  // namespace commlens::formats
