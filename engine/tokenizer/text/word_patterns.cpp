#include "engine/tokenizer/text/word_patterns.hpp"

#include <algorithm>
#include <iterator>

namespace rigcast::engine {
namespace {

// Unicode's White_Space. PCRE2's own \s would count U+180E too, which no tokenizer does.
#define RIGCAST_SPACE "\\p{Z}\\t-\\r\\x{85}"

// Ends of lines and runs of blanks are treated the same in nearly all patterns.
#define RIGCAST_TRAILING_BLANKS "[" RIGCAST_SPACE "]+(?![^" RIGCAST_SPACE "])|[" RIGCAST_SPACE "]+"
#define RIGCAST_BLANKS "[" RIGCAST_SPACE "]*[\\r\\n]+|" RIGCAST_TRAILING_BLANKS

#define RIGCAST_SIGNS " ?[^" RIGCAST_SPACE "\\p{L}\\p{N}]+"
#define RIGCAST_CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"

// Patterns with punctuation, an optional first sign of a word, and line ends after punctuation.
#define RIGCAST_LATER_WORDS(digits, line_end)                                             \
  RIGCAST_CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "|" RIGCAST_SIGNS line_end \
                      "|" RIGCAST_BLANKS

// Words end where an upper-case letter follows a lower-case one: "camelCase" is two words.
#define RIGCAST_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define RIGCAST_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define RIGCAST_CASED_WORDS(contraction, digits)                                       \
  "[^\\r\\n\\p{L}\\p{N}]?" RIGCAST_UPPER "*" RIGCAST_LOWER "+" contraction             \
  "|[^\\r\\n\\p{L}\\p{N}]?" RIGCAST_UPPER "+" RIGCAST_LOWER "*" contraction "|" digits \
  "|" RIGCAST_SIGNS "[\\r\\n/]*|" RIGCAST_BLANKS

constexpr const char* kGpt2Words =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" RIGCAST_SIGNS "|" RIGCAST_TRAILING_BLANKS;
constexpr const char* kDigit = "\\p{N}";
constexpr const char* kUpToThreeDigits = "\\p{N}{1,3}";

constexpr const char* kGpt2[] = {kGpt2Words};
constexpr const char* kLlama3[] = {RIGCAST_LATER_WORDS("\\p{N}{1,3}", "[\\r\\n]*")};
constexpr const char* kQwen2[] = {RIGCAST_LATER_WORDS("\\p{N}", "[\\r\\n]*")};
constexpr const char* kSeedCoder[] = {RIGCAST_LATER_WORDS("\\p{N}", "")};
constexpr const char* kMiniCpm5[] = {kUpToThreeDigits, RIGCAST_LATER_WORDS("\\p{N}+", "[\\r\\n]*")};
constexpr const char* kTekken[] = {RIGCAST_CASED_WORDS("", "\\p{N}")};
constexpr const char* kGpt4o[] = {RIGCAST_CASED_WORDS(RIGCAST_CONTRACTION "?", "\\p{N}{1,3}")};
constexpr const char* kSingleDigits[] = {kDigit, kGpt2Words};

// llama.cpp's patterns for files that were converted before pre-tokenizers had names.
constexpr const char* kDefault[] = {"[\\p{P}$+<=>^~|]+", kGpt2Words, "\\p{N}+", "[0-9][0-9][0-9]"};
constexpr const char* kFalcon[] = {"[\\p{P}$+<=>^~|`]+", kGpt2Words, "[0-9][0-9][0-9]"};

// Letters of alphabets with upper and lower case, by the Unicode version of that model.
#define RIGCAST_CASED_LETTERS                                                                     \
  "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}" \
  "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}"           \
  "\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}" \
  "\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}" \
  "\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}"                  \
  "\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}"                  \
  "\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}"          \
  "\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}"         \
  "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}"         \
  "\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}"           \
  "\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}"         \
  "\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}"          \
  "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"                   \
  "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}"                  \
  "\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"                \
  "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"          \
  "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"

// Chinese, Japanese and Korean; the range also includes many characters before Chinese.
constexpr const char* kDeepSeekEast = "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+";
constexpr const char* kLineEnd = "[\\r\\n]";

constexpr const char* kDeepSeekLlm[] = {
    kLineEnd,
    "[" RIGCAST_SPACE "]?[" RIGCAST_CASED_LETTERS "]+",
    "[" RIGCAST_SPACE
    "]?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}"
    "\\x{3000}-\\x{3002}]+",
    // Blanks at the end of the text. The pattern is only tried at the beginning of a run of blanks:
    // otherwise a long run would be read again from each of its blanks.
    "(?<![" RIGCAST_SPACE "])[" RIGCAST_SPACE "]++\\z",
    kDeepSeekEast,
    kDigit,
};
constexpr const char* kDeepSeekCoder[] = {kLineEnd, "[" RIGCAST_SPACE "]?\\p{L}+",
                                          "[" RIGCAST_SPACE "]?\\p{P}+", kDeepSeekEast, kDigit};
constexpr const char* kDeepSeek3[] = {
    kUpToThreeDigits,
    "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+",
    "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
    "[\\r\\n]*|" RIGCAST_BLANKS,
};

// Runs of Chinese characters; the other words are GPT-4o's without them. Ranges: Unicode's script
// Han. PCRE2's own \p{Han} would be its script extensions, in which 。 is too.
#define RIGCAST_HAN                                                                      \
  "[\\x{2E80}-\\x{2E99}\\x{2E9B}-\\x{2EF3}\\x{2F00}-\\x{2FD5}\\x{3005}\\x{3007}"         \
  "\\x{3021}-\\x{3029}\\x{3038}-\\x{303B}\\x{3400}-\\x{4DBF}\\x{4E00}-\\x{9FFF}"         \
  "\\x{F900}-\\x{FA6D}\\x{FA70}-\\x{FAD9}\\x{16FE2}\\x{16FE3}\\x{16FF0}\\x{16FF1}"       \
  "\\x{20000}-\\x{2A6DF}\\x{2A700}-\\x{2B739}\\x{2B740}-\\x{2B81D}\\x{2B820}-\\x{2CEA1}" \
  "\\x{2CEB0}-\\x{2EBE0}\\x{2EBF0}-\\x{2EE5D}\\x{2F800}-\\x{2FA1D}\\x{30000}-\\x{3134A}" \
  "\\x{31350}-\\x{323AF}]"
#define RIGCAST_NOT_HAN(letters) "(?:(?!" RIGCAST_HAN ")" letters ")"
constexpr const char* kKimiK2[] = {
    RIGCAST_HAN "+|[^\\r\\n\\p{L}\\p{N}]?" RIGCAST_NOT_HAN(RIGCAST_UPPER) "*" RIGCAST_NOT_HAN(
        RIGCAST_LOWER) "+" RIGCAST_CONTRACTION
                       "?"
                       "|[^\\r\\n\\p{L}\\p{N}]?" RIGCAST_NOT_HAN(RIGCAST_UPPER) "+" RIGCAST_NOT_HAN(
                           RIGCAST_LOWER) "*" RIGCAST_CONTRACTION
                                          "?"
                                          "|\\p{N}{1,3}|" RIGCAST_SIGNS
                                          "[\\r\\n]*|" RIGCAST_BLANKS};
#undef RIGCAST_NOT_HAN
#undef RIGCAST_HAN

// Marks belong to the letters before them.
constexpr const char* kQwen35[] = {
    RIGCAST_CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" RIGCAST_SPACE
                        "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" RIGCAST_BLANKS};
// Words of several, with single spaces between them.
constexpr const char* kExaoneMoe[] = {
    RIGCAST_CONTRACTION
    "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|" RIGCAST_SIGNS
    "[\\r\\n/]?|[" RIGCAST_SPACE "]*[\\r\\n]|" RIGCAST_TRAILING_BLANKS};
// Digits by threes from the right, if the number ends a word: \d{1,3}(?=(?:\d{3})*\b) in two
// steps, neither of which reads a long number again from each of its digits.
constexpr const char* kTinyAya[] = {
    "(?<!\\p{Nd})\\p{Nd}++\\b",
    "(?<!\\p{Nd})\\p{Nd}{1,3}(?=(?:\\p{Nd}{3})*+\\z)|\\G(?<=\\p{Nd})\\p{Nd}{3}",
    RIGCAST_CASED_WORDS(RIGCAST_CONTRACTION "?", "\\p{N}{1,3}")};
constexpr const char* kLines[] = {"[^\\n]+|\\n+"};

#define RIGCAST_BLOOM_WORDS \
  " ?[^(" RIGCAST_SPACE "|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"
constexpr const char* kBloom[] = {RIGCAST_BLOOM_WORDS};
constexpr const char* kViking[] = {RIGCAST_BLOOM_WORDS, kDigit};

#undef RIGCAST_BLOOM_WORDS
#undef RIGCAST_CASED_LETTERS
#undef RIGCAST_CASED_WORDS
#undef RIGCAST_LOWER
#undef RIGCAST_UPPER
#undef RIGCAST_LATER_WORDS
#undef RIGCAST_CONTRACTION
#undef RIGCAST_SIGNS
#undef RIGCAST_BLANKS
#undef RIGCAST_TRAILING_BLANKS
#undef RIGCAST_SPACE

struct Named {
  std::string_view name;
  WordPatterns patterns;
};

constexpr Named kNamed[] = {
    {"gpt-2", {kGpt2}},
    {"phi-2", {kGpt2}},
    {"mpt", {kGpt2}},
    {"olmo", {kGpt2}},
    {"jais", {kGpt2}},
    {"trillion", {kGpt2}},
    {"granite-docling", {kGpt2}},
    {"gigachat", {kGpt2}},
    {"mellum", {kGpt2}},
    {"a.x-4.0", {kGpt2}},
    {"exaone4", {kGpt2}},
    {"default", {kDefault}},
    {"falcon", {kFalcon}},
    {"llama-bpe", {kLlama3, true, true}},
    {"llama-v3", {kLlama3, true, true}},
    {"llama3", {kLlama3, true, true}},
    {"falcon3", {kLlama3, true, true}},
    {"falcon-h1", {kLlama3, true, true}},
    {"pixtral", {kLlama3, true, true}},
    {"midm-2.0", {kLlama3, true, true}},
    {"lfm2", {kLlama3, true, true}},
    {"dbrx", {kLlama3}},
    {"smaug-bpe", {kLlama3}},
    {"glm4", {kLlama3}},
    {"chatglm-bpe", {kLlama3}},
    {"minicpm5", {kMiniCpm5, true}},
    {"qwen2", {kQwen2}},
    {"deepseek-r1-qwen", {kQwen2}},
    {"stablelm2", {kQwen2}},
    {"megrez", {kQwen2}},
    {"kormo", {kQwen2}},
    {"f2llmv2", {kQwen2}},
    {"hunyuan", {kQwen2}},
    {"solar-open", {kQwen2}},
    {"grok-2", {kQwen2}},
    {"seed-coder", {kSeedCoder}},
    {"tekken", {kTekken, true, true}},
    {"gpt-4o", {kGpt4o}},
    {"llama4", {kGpt4o}},
    {"kanana2", {kGpt4o}},
    {"talkie", {kGpt4o}},
    {"minimax-m2", {kGpt4o}},
    {"smollm", {kSingleDigits}},
    {"starcoder", {kSingleDigits}},
    {"refact", {kSingleDigits}},
    {"command-r", {kSingleDigits}},
    {"codeshell", {kSingleDigits}},
    {"exaone", {kSingleDigits}},
    {"minerva-7b", {kSingleDigits}},
    {"mellum2", {kSingleDigits}},
    {"deepseek-llm", {kDeepSeekLlm}},
    {"deepseek-coder", {kDeepSeekCoder}},
    {"deepseek-v3", {kDeepSeek3}},
    {"hunyuan-dense", {kDeepSeek3}},
    {"joyai-llm", {kDeepSeek3}},
    {"hy_v4", {kDeepSeek3}},
    {"qwen35", {kQwen35}},
    {"bailingmoe", {kQwen2}},
    {"bailingmoe2", {kQwen2}},
    {"llada-moe", {kQwen2}},
    {"exaone-moe", {kExaoneMoe}},
    {"tiny_aya", {kTinyAya}},
    {"cohere2moe", {kTinyAya}},
    {"kimi-k2", {kKimiK2}},
    {"gemma4", {kLines}},
    {"bloom", {kBloom}},
    {"poro-chat", {kBloom}},
    {"gpt3-finnish", {kBloom}},
    {"viking", {kViking}},
};

}  // namespace

const WordPatterns* word_patterns(std::string_view name) {
  const auto* at = std::ranges::find(kNamed, name, &Named::name);
  return at == std::end(kNamed) ? nullptr : &at->patterns;
}

const WordPatterns& default_word_patterns() { return kNamed[0].patterns; }

}  // namespace rigcast::engine
