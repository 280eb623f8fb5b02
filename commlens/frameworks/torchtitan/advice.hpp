#pragma once
#include "commlens/frameworks/advice_texts.hpp"

namespace commlens::torchtitan {

/// What users of torchtitan change to lower what is sent: options of its command line, "--section.key value".
AdviceTexts advice_texts();

}  // namespace commlens::torchtitan
