// Calls clang's driver, -cc1 and lld in this process through their public interfaces.
//
// Output, files and exit codes equal those of the real programs. Anything uncertain is declined, and the caller runs
// the real program.

#include "compiler.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "builds.h"
#include "checkpoint.h"
#include "clang/Basic/Diagnostic.h"
#include "clang/Basic/DiagnosticOptions.h"
#include "clang/Basic/Stack.h"
#include "clang/Basic/Version.h"
#include "clang/CodeGen/ObjectFilePCHContainerOperations.h"
#include "clang/Driver/Compilation.h"
#include "clang/Driver/Driver.h"
#include "clang/Driver/Job.h"
#include "clang/Driver/Options.h"
#include "clang/Driver/Tool.h"
#include "clang/Driver/ToolChain.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Frontend/TextDiagnosticBuffer.h"
#include "clang/Frontend/TextDiagnosticPrinter.h"
#include "clang/FrontendTool/Utils.h"
#include "fork.h"
#include "lld/Common/Driver.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/Timer.h"
#include "llvm/Support/VirtualFileSystem.h"
#include "llvm/TargetParser/Host.h"
#include "temporary_files.h"
#include "unsupported_options.h"

LLD_HAS_DRIVER(elf)

namespace lld {
// Its header includes one that Debian does not have.
std::string getLLDVersion();
}  // namespace lld

namespace tanto {
namespace {

using Words = llvm::SmallVector<const char *, 256>;

std::function<void(const char *)> last_word;

Outcome declined(const llvm::Twine &why) { return {true, 0, why.str()}; }

Outcome failed(const llvm::Twine &why) { return {true, 0, why.str(), true}; }

// clang's exit code for a crash.
constexpr int crashed = 70;

bool is_crash(int code) { return code < 0 || code == crashed || code > 128; }

// Runs a -cc1 line, which begins with the program's name, like the program itself.
int run_cc1(llvm::SmallVectorImpl<const char *> &words) {
  auto clang = std::make_unique<clang::CompilerInstance>();
  auto containers = clang->getPCHContainerOperations();
  containers->registerWriter(std::make_unique<clang::ObjectFilePCHContainerWriter>());
  containers->registerReader(std::make_unique<clang::ObjectFilePCHContainerReader>());
  // Diagnostics about the options are collected before the diagnostics engine is configured.
  auto *buffer = new clang::TextDiagnosticBuffer;
  clang::DiagnosticsEngine early(new clang::DiagnosticIDs, new clang::DiagnosticOptions, buffer);
  const llvm::ArrayRef<const char *> options = llvm::ArrayRef(words).slice(2);
  bool ok = clang::CompilerInvocation::CreateFromArgs(clang->getInvocation(), options, early, words[0]);
  clang->createDiagnostics();
  if (!clang->hasDiagnostics()) {
    return 1;
  }
  buffer->FlushDiagnostics(clang->getDiagnostics());
  if (!ok) {
    clang->getDiagnosticClient().finish();
    return 1;
  }
  ok = clang::ExecuteCompilerInvocation(clang.get());
  llvm::TimerGroup::printAll(llvm::errs());
  llvm::TimerGroup::clearAll();
  llvm::outs().flush();
  if (clang->getFrontendOpts().DisableFree) {
    // The process ends here.
    (void)clang.release();
  }
  return ok ? 0 : 1;
}

int run_lld(const clang::driver::Command &job) {
  Words words = {job.getExecutable()};
  words.append(job.getArguments().begin(), job.getArguments().end());
  return lld::lldMain(words, llvm::outs(), llvm::errs(), {{lld::Gnu, &lld::elf::link}}).retCode;
}

bool is_same_file(llvm::StringRef one, llvm::StringRef other) {
  llvm::sys::fs::UniqueID first, second;
  return !llvm::sys::fs::getUniqueID(one, first) && !llvm::sys::fs::getUniqueID(other, second) && first == second;
}

// The program's name may determine the language and the target.
void insert_options_of_name(const clang::driver::ParsedClangName &name, Words &words, std::set<std::string> &kept) {
  auto at = words.begin() + 1;
  if (name.DriverMode) {
    at = words.insert(at, name.DriverMode);
  }
  if (name.TargetIsValid) {
    const char *target[] = {"-target", kept.insert(name.TargetPrefix).first->c_str()};
    words.insert(words.begin() + 1, std::begin(target), std::end(target));
  }
}

llvm::IntrusiveRefCntPtr<clang::DiagnosticOptions> diagnostic_options(const Words &words) {
  llvm::IntrusiveRefCntPtr<clang::DiagnosticOptions> options = new clang::DiagnosticOptions;
  unsigned missing_index = 0, missing_count = 0;
  llvm::opt::InputArgList parsed =
      clang::driver::getDriverOptTable().ParseArgs(llvm::ArrayRef(words).slice(1), missing_index, missing_count);
  clang::ParseDiagnosticArgs(*options, parsed);
  return options;
}

// One run of the driver for one command.
class Attempt {
 public:
  using Pause = std::function<void(const Prefix &)>;

  Attempt(const Order &order, const Pause *pause) : order(order), pause(pause) {
    for (const std::string &argument : order.arguments) {
      words.push_back(argument.c_str());
      has_more_words = has_more_words || argument.starts_with('@');
    }
  }

  Outcome make() {
    if (words.empty()) {
      return declined("no words");
    }
    const auto name = clang::driver::ToolChain::getTargetAndModeFromProgramName(words[0]);
    const llvm::StringRef mode = clang::driver::getDriverMode(words[0], llvm::ArrayRef(words).slice(1));
    if (clang::driver::IsClangCL(mode) || mode == "flang" || mode == "dxc") {
      return declined("driver mode " + mode);
    }
    if (llvm::Error error = clang::driver::expandResponseFiles(words, false, allocator)) {
      return failed(llvm::toString(std::move(error)));
    }
    if (pause && has_more_words) {
      return declined("its options are in a file");
    }
    for (const char *word : words) {
      if (is_unsupported_driver_option(word)) {
        return pause ? no_option(word) : declined(word);
      }
    }
    insert_options_of_name(name, words, kept);
    return plan_and_run(name);
  }

 private:
  const Order &order;
  const Pause *const pause;
  llvm::IntrusiveRefCntPtr<Recorder> recorder;
  std::unique_ptr<GrowableText> main;
  Words words;
  bool has_more_words = false;
  std::set<std::string> kept;
  llvm::BumpPtrAllocator allocator;

  static constexpr const char *not_one = "it is not one compile";
  // Leaves descriptors for the compile itself.
  static constexpr std::size_t max_temporaries = TemporaryFiles::most - 16;

  static Outcome no_option(const llvm::Twine &word) { return declined(word + " is not supported with checkpoints"); }

  // Returns the driver's jobs, and its diagnostics.
  struct Plan {
    llvm::IntrusiveRefCntPtr<clang::DiagnosticOptions> options;
    clang::DiagnosticsEngine diagnostics;
    clang::driver::Driver driver;
    std::unique_ptr<clang::driver::Compilation> compilation;

    Plan(const Order &order, Words &words, const clang::driver::ParsedClangName &name,
         llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> files)
        : options(diagnostic_options(words)),
          diagnostics(new clang::DiagnosticIDs, options, printer(words, options.get())),
          driver(order.clang, llvm::sys::getDefaultTargetTriple(), diagnostics, "clang LLVM compiler", files) {
      clang::ProcessWarningOptions(diagnostics, *options, false);
      driver.setTargetAndMode(name);
      driver.CC1Main = [](llvm::SmallVectorImpl<const char *> &line) { return run_cc1(line); };
      compilation.reset(driver.BuildCompilation(words));
    }

    static clang::TextDiagnosticPrinter *printer(const Words &words, clang::DiagnosticOptions *options) {
      auto *printer = new clang::TextDiagnosticPrinter(llvm::errs(), options);
      printer->setPrefix(std::string(llvm::sys::path::stem(words[0])));
      return printer;
    }
  };

  Outcome plan_and_run(const clang::driver::ParsedClangName &name) {
    auto files = pause ? observed() : llvm::vfs::getRealFileSystem();
    Words planned = words;
    Plan plan(order, planned, name, files);
    if (!plan.compilation) {
      return failed("no plan");
    }
    if (pause && plan.diagnostics.getNumWarnings() != 0) {
      return declined("clang warns of its options");
    }
    Outcome outcome =
        plan.diagnostics.hasErrorOccurred() ? failed("clang finds an error in its options") : run(plan, name);
    if (outcome.declined) {
      plan.compilation->CleanupFileList(plan.compilation->getTempFiles());
    }
    plan.diagnostics.getClient()->finish();
    return outcome;
  }

  llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> observed() {
    main = GrowableText::make(64 << 20);
    recorder = new Recorder(main.get());
    return recorder;
  }

  // Returns the -cc1 line with the program's name first; nothing if there is none or the driver has diagnostics.
  static std::vector<const char *> line_of(Plan &plan) {
    const bool is_silent = plan.compilation && plan.diagnostics.getNumWarnings() == 0 &&
                           !plan.diagnostics.hasErrorOccurred() && plan.compilation->getJobs().size() == 1;
    if (!is_silent || !plan.compilation->getJobs().begin()->InProcess) {
      return {};
    }
    const clang::driver::Command &job = *plan.compilation->getJobs().begin();
    std::vector<const char *> line = {job.getExecutable()};
    line.insert(line.end(), job.getArguments().begin(), job.getArguments().end());
    return line;
  }

  Outcome run_with_pause(Plan &plan, const clang::driver::ParsedClangName &name) {
    const std::vector<const char *> line = line_of(plan);
    if (line.size() < 3) {
      return declined(not_one);
    }
    if (const auto option = option_without_checkpoint(line)) {
      return no_option(*option);
    }
    const std::string path = line.back();
    if (!main || !main->read(path)) {
      return declined("its file cannot be read");
    }
    recorder->set_main_file(path);
    const auto is_same_line = [&] {
      Words again = words;
      Plan other(order, again, name, llvm::vfs::getRealFileSystem());
      const std::vector<const char *> its = line_of(other);
      return std::equal(line.begin(), line.end(), its.begin(), its.end(),
                        [](const char *one, const char *two) { return std::strcmp(one, two) == 0; });
    };
    const auto give_up = [](const char *why) {
      if (last_word) {
        last_word(why);
      }
    };
    const int code = compile_with_pause(line, *recorder, *main, path, {*pause, is_same_line, give_up});
    if (code != 0) {
      // Like the driver.
      clang::driver::Compilation &compilation = *plan.compilation;
      const auto *action = llvm::cast<clang::driver::JobAction>(&compilation.getJobs().begin()->getSource());
      compilation.CleanupFileMap(compilation.getResultFiles(), action, true);
    }
    return {false, code, {}};
  }

  Outcome run(Plan &plan, const clang::driver::ParsedClangName &name) {
    clang::driver::Compilation &compilation = *plan.compilation;
    if (pause) {
      return run_with_pause(plan, name);
    }
    if (compilation.getJobs().size() != 1) {
      return run_jobs(plan.driver, compilation);
    }
    const clang::driver::Command &job = *compilation.getJobs().begin();
    const llvm::opt::ArgStringList &line = job.getArguments();
    if (job.InProcess && is_compile(job)) {
      const char *const word = refused_option(job);
      return word ? declined(word) : execute(plan.driver, compilation);
    }
    if (job.getCreator().isLinkJob() && !order.lld.empty() && is_same_file(job.getExecutable(), order.lld)) {
      return link(job, line);
    }
    return declined("its job is another program's");
  }

  static bool is_compile(const clang::driver::Command &job) {
    return !job.getArguments().empty() && job.getArguments()[0] == llvm::StringRef("-cc1");
  }

  // Null if there is none.
  static const char *refused_option(const clang::driver::Command &compile) {
    const llvm::opt::ArgStringList &line = compile.getArguments();
    const auto found =
        std::find_if(line.begin(), line.end(), [](const char *word) { return is_unsupported_cc1_option(word); });
    return found == line.end() ? nullptr : *found;
  }

  // Runs each compile in a fork, and all other jobs, such as links and assemblers, as processes.
  static Outcome run_jobs(clang::driver::Driver &driver, clang::driver::Compilation &compilation) {
    bool compiles = false;
    for (clang::driver::Command &job : compilation.getJobs()) {
      if (!is_compile(job)) {
        continue;
      }
      if (const char *word = refused_option(job)) {
        return declined(word);
      }
      job.InProcess = compiles = true;
    }
    const llvm::opt::ArgStringList &temporaries = compilation.getTempFiles();
    if (!compiles || temporaries.size() > max_temporaries) {
      return declined(compiles ? "it has too many temporary files" : "its jobs are other programs'");
    }
    for (const char *file : temporaries) {
      llvm::sys::RemoveFileOnSignal(file);
    }
    end_with_group();
    driver.CC1Main = [](llvm::SmallVectorImpl<const char *> &line) {
      return run_in_fork([&] { return run_cc1(line); });
    };
    return execute(driver, compilation);
  }

  static Outcome execute(clang::driver::Driver &driver, clang::driver::Compilation &compilation) {
    llvm::SmallVector<std::pair<int, const clang::driver::Command *>, 4> failing;
    int code = driver.ExecuteCompilation(compilation, failing);
    if (code == 0 && !failing.empty()) {
      code = failing.front().first;
    }
    const bool has_crashed = std::any_of(failing.begin(), failing.end(), [](auto &it) { return is_crash(it.first); });
    return has_crashed || is_crash(code) ? failed("it crashed") : Outcome{false, code, {}};
  }

  // The driver reports a failed linker itself, so a failure is left to the real program.
  static Outcome link(const clang::driver::Command &job, const llvm::opt::ArgStringList &line) {
    for (const char *word : line) {
      if (is_unsupported_lld_option(word)) {
        return declined(word);
      }
    }
    const int code = run_lld(job);
    return code != 0 ? failed("the linker failed") : Outcome{};
  }
};

void fatal(void *, const char *why, bool) {
  llvm::sys::RunInterruptHandlers();
  if (last_word) {
    last_word(why);
  }
  _exit(crashed);
}

// A sample of a compiler's work: templates, overloads, a loop, an inlined call, a table.
constexpr char small_file[] = R"(
namespace { template <class T> struct Box { T value; Box(T v) : value(v) {} ~Box() {}
  template <class F> auto map(F f) const -> Box<decltype(f(value))> { return {f(value)}; } }; }
struct Base { virtual ~Base(); virtual int at(unsigned) const = 0; };
struct Table : Base { int entries[64]; int at(unsigned i) const override { return entries[i & 63]; } };
static inline int twice(int x) { return x * 2; }
int sum(const Base &it, unsigned n, double *out) {
  int total = 0;
  for (unsigned i = 0; i < n; ++i) { switch (i % 5) { case 0: total += it.at(i); break;
    case 3: total ^= twice(total); break; default: out[i] = total * 0.5; } }
  return Box<int>(total).map([&](int x) { return x + static_cast<int>(n); }).value;
}
int main() { Table table{}; double out[8]; static const char *const name = "warm";
  return sum(table, 8, out) + static_cast<int>(__builtin_strlen(name)); }
)";

}  // namespace

Outcome run_command(const Order &order) {
  clang::noteBottomOfStack();
  return Attempt(order, nullptr).make();
}

Outcome run_with_pause(const Order &order, const std::function<void(const Prefix &)> &pause) {
  clang::noteBottomOfStack();
  return Attempt(order, &pause).make();
}

void prepare() {
  llvm::InitializeAllTargets();
  llvm::InitializeAllTargetMCs();
  llvm::InitializeAllAsmPrinters();
  llvm::InitializeAllAsmParsers();
  llvm::install_fatal_error_handler(fatal);
}

bool warm_up() {
  const int file = memfd_create("warm", MFD_CLOEXEC);
  const std::size_t size = std::strlen(small_file);
  if (file < 0 || write(file, small_file, size) != static_cast<ssize_t>(size)) {
    return false;
  }
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  const std::string clang = LLVM_TOOLS "/clang";
  const Outcome outcome = run_command({clang, "", {clang, "-xc++", "-O1", "-g", "-c", path, "-o", "/dev/null"}});
  close(file);
  // Forks must not repeat this: it would write to thousands of unset options.
  llvm::cl::ResetAllOptionOccurrences();
  return !outcome.declined && outcome.code == 0;
}

void on_fatal_error(std::function<void(const char *)> last) { last_word = std::move(last); }

std::string clang_version() { return clang::getClangToolFullVersion("clang"); }

std::string lld_version() { return lld::getLLDVersion(); }

std::vector<std::string> builds() { return {std::begin(linked_builds), std::end(linked_builds)}; }

}  // namespace tanto
