// Runs each fuzz target with the inputs of its corpus, without a fuzzer. The targets thus
// still compile, and what was found once is not broken again.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#define TARGET(name) \
  extern "C" int fuzz_##name(const unsigned char* data, std::size_t size);
DLOCK_FUZZ_TARGETS
#undef TARGET

namespace {

struct Target {
  const char* name;
  int (*run)(const unsigned char* data, std::size_t size);
};

#define TARGET(name) {#name, fuzz_##name},
constexpr Target targets[] = {DLOCK_FUZZ_TARGETS};
#undef TARGET

// The number of inputs. A target that finds a fault aborts.
int replay(const Target& target, const std::filesystem::path& corpus) {
  int inputs = 0;
  for (const auto& input : std::filesystem::directory_iterator(corpus / target.name)) {
    std::ifstream file(input.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::printf("%s\n", input.path().c_str());
    std::fflush(stdout);
    target.run(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    ++inputs;
  }
  return inputs;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: dlock_replay_corpus DIRECTORY\n");
    return 64;
  }
  for (const auto& target : targets) {
    if (replay(target, argv[1]) == 0) {
      std::fprintf(stderr, "%s: no inputs\n", target.name);
      return 1;
    }
  }
}
