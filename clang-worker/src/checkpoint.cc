// A compile in two halves.
//
// Both halves are one parse: the process that has read the leading includes waits in a callback of the preprocessor; a
// fork replaces the rest of the main file below its lexer, and continues. All uses of clang's private members are in
// clang_members.h.

#include "checkpoint.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "clang/CodeGen/CodeGenAction.h"
#include "clang/CodeGen/ModuleBuilder.h"
#include "clang/CodeGen/ObjectFilePCHContainerOperations.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Frontend/TextDiagnosticBuffer.h"
#include "clang/Lex/Lexer.h"
#include "clang/Lex/PPCallbacks.h"
#include "clang/Lex/Preprocessor.h"
#include "clang_members.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MD5.h"
#include "llvm/Support/Signals.h"

namespace tanto {
namespace {

// Maximum growth of the main file.
constexpr clang::SourceLocation::UIntTy room_to_grow = 4 << 20;

// The object, opened when its writer is known.
class LaterStream : public llvm::raw_pwrite_stream {
 public:
  LaterStream() : raw_pwrite_stream(true) {}

  std::unique_ptr<llvm::raw_pwrite_stream> target;
  bool was_written = false;

 private:
  void write_impl(const char *bytes, std::size_t size) override {
    was_written = true;
    if (target) {
      target->write(bytes, size);
    }
  }

  void pwrite_impl(const char *bytes, std::size_t size, std::uint64_t offset) override {
    was_written = true;
    if (target) {
      target->pwrite(bytes, size, offset);
    }
  }

  std::uint64_t current_pos() const override { return target ? target->tell() : 0; }
};

// Returns whether a directive of this kind reads another file.
bool is_inclusion(llvm::StringRef word) { return word == "include" || word == "import" || word == "include_next"; }

// Content of a piece of the main file's top level, by its text alone.
struct TextSummary {
  bool has_code = false;             // something that is no directive
  bool includes_first = false;       // before that, a directive that reads another file
  bool begins_with_include = false;  // the first directive does
};

// A lexer needs a NUL after its text.
TextSummary summarize(const std::string &piece, const clang::LangOptions &options) {
  const llvm::StringRef text(piece);
  TextSummary summary;
  clang::Lexer lexer(clang::SourceLocation(), options, text.begin(), text.begin(), text.end());
  clang::Token token;
  bool in_directive = false, after_hash = false, is_first = true;
  for (;;) {
    lexer.LexFromRawLexer(token);
    if (token.is(clang::tok::eof)) {
      return summary;
    }
    if (token.isAtStartOfLine()) {
      in_directive = after_hash = token.is(clang::tok::hash);
      summary.has_code = summary.has_code || !in_directive;
    } else if (after_hash) {
      const bool includes = token.is(clang::tok::raw_identifier) && is_inclusion(token.getRawIdentifier());
      summary.includes_first = summary.includes_first || includes;
      summary.begins_with_include = summary.begins_with_include || (includes && is_first);
      after_hash = is_first = false;
    }
    if (summary.has_code) {
      return summary;
    }
  }
}

// Replaces the rest of the main file in a paused compile.
class Splice {
 public:
  explicit Splice(clang::CompilerInstance &clang) : clang(clang), sources(clang.getSourceManager()) {}

  // Reserves locations after the main file, for its growth.
  void reserve() { members::next_location(sources) += room_to_grow; }

  // The position in the main file.
  std::size_t offset() const {
    clang::Lexer &lexer = members::lexer(clang.getPreprocessor());
    return static_cast<std::size_t>(members::position(lexer) - members::begin(lexer));
  }

  // Tokens that were read ahead would be from the old text.
  bool has_read_ahead() const {
    const clang::Preprocessor &preprocessor = clang.getPreprocessor();
    return members::cached_tokens(preprocessor) != members::cached_position(preprocessor);
  }

  void replace(llvm::StringRef text) {
    clang::SrcMgr::ContentCache &content = members::content(sources, sources.getMainFileID());
    // The text has the same address as the old one.
    const llvm::StringRef name = members::buffer(content)->getBufferIdentifier();
    members::buffer(content) = llvm::MemoryBuffer::getMemBuffer(text, name);
    members::forget_lines(content);
    members::forget_line(sources);
    members::size(content) = static_cast<off_t>(text.size());
    clang::Lexer &lexer = members::lexer(clang.getPreprocessor());
    members::end(lexer) = members::begin(lexer) + text.size();
  }

  // Changes the checksum of the main file in the debug information. Returns false if it is of another kind.
  bool sum(llvm::Module &module, llvm::StringRef text) const {
    for (llvm::DICompileUnit *unit : module.debug_compile_units()) {
      llvm::DIFile &file = *unit->getFile();
      auto &checksum = members::checksum(file);
      if (!checksum) {
        continue;
      }
      if (checksum->Kind != llvm::DIFile::CSK_MD5) {
        return false;
      }
      llvm::SmallString<32> digits;
      llvm::toHex(llvm::MD5::hash(llvm::arrayRefFromStringRef(text)), true, digits);
      llvm::MDString *value = llvm::MDString::get(module.getContext(), digits);
      members::remove_from_index(file);
      checksum->Value = value;
      members::set_operand(file, members::checksum_operand, value);
      members::add_to_index(file);
    }
    return true;
  }

 private:
  clang::CompilerInstance &clang;
  clang::SourceManager &sources;
};

// Results that differ between queries, for the user.
constexpr const char *uses_time = "it or a header uses __DATE__, __TIME__ or __TIMESTAMP__",
                     *uses_embed = "it or a header uses #embed or __has_embed",
                     *imports_module = "it or a header imports a module";

// Output to these two would have been shown to the user.
bool is_silent() {
  struct stat out{}, errors{};
  return llvm::outs().tell() == 0 && fstat(1, &out) == 0 && fstat(2, &errors) == 0 && out.st_size == 0 &&
         errors.st_size == 0;
}

// Waits for the last return from an include before the main file's own code.
class Watch : public clang::PPCallbacks {
 public:
  // `arrive` gets the offset of the pause, or nothing. `refuse` reports at once why the compile must not pause or
  // continue.
  struct Calls {
    std::function<void(std::optional<std::size_t>)> arrive;
    std::function<void(const char *why)> refuse;
  };

  Watch(clang::CompilerInstance &clang, Calls calls) : clang(clang), calls(std::move(calls)) {}

  void FileChanged(clang::SourceLocation place, FileChangeReason reason, clang::SrcMgr::CharacteristicKind,
                   clang::FileID) override {
    if (reason == ExitFile) {
      stop_at(place);
    }
    const clang::SourceManager &sources = clang.getSourceManager();
    const clang::FileID entered = sources.getFileID(place);
    if (reason == EnterFile && entered != sources.getMainFileID() && is_main(entered)) {
      refuse(Recorder::includes_itself);
    }
  }

  void InclusionDirective(clang::SourceLocation, const clang::Token &, llvm::StringRef, bool, clang::CharSourceRange,
                          clang::OptionalFileEntryRef, llvm::StringRef, llvm::StringRef, const clang::Module *, bool,
                          clang::SrcMgr::CharacteristicKind) override {
    if (is_scout) {
      _exit(there_is_more);
    }
  }

  void EndOfMainFile() override {
    if (is_scout) {
      _exit(there_is_no_more);
    }
    if (!has_arrived) {
      calls.arrive(std::nullopt);
    }
  }

  // A file that was read before and has a guard is not entered.
  void FileSkipped(const clang::FileEntryRef &, const clang::Token &name, clang::SrcMgr::CharacteristicKind) override {
    stop_at(name.getLocation());
  }

  void MacroExpands(const clang::Token &name, const clang::MacroDefinition &, clang::SourceRange,
                    const clang::MacroArgs *) override {
    const llvm::StringRef word = name.getIdentifierInfo()->getName();
    if (word == "__DATE__" || word == "__TIME__" || word == "__TIMESTAMP__") {
      refuse(uses_time);
    } else if (word == "__has_embed") {
      refuse(uses_embed);
    }
  }

  void EmbedDirective(clang::SourceLocation, llvm::StringRef, bool, clang::OptionalFileEntryRef,
                      const clang::LexEmbedParametersResult &) override {
    refuse(uses_embed);
  }

  void moduleImport(clang::SourceLocation, clang::ModuleIdPath, const clang::Module *) override {
    refuse(imports_module);
  }

 private:
  clang::CompilerInstance &clang;
  const Calls calls;
  bool has_arrived = false;
  bool is_scout = false;
  static constexpr int there_is_no_more = 40, there_is_more = 41;

  // The parent reports the same.
  void refuse(const char *why) {
    if (!is_scout) {
      calls.refuse(why);
    }
  }

  bool is_main(clang::FileID id) const {
    const clang::SourceManager &sources = clang.getSourceManager();
    const auto one = sources.getFileEntryRefForID(id), main = sources.getFileEntryRefForID(sources.getMainFileID());
    return one && main && &one->getFileEntry() == &main->getFileEntry();
  }

  // Returns whether an include in this text before the main file's code is read, not behind a false `#if`. A fork
  // continues to determine this.
  bool has_more_includes() {
    const pid_t own = getpid(), scout = fork();
    if (scout == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != own) {
        _exit(there_is_more);
      }
      const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
      dup2(nothing, 1);
      dup2(nothing, 2);
      is_scout = has_arrived = true;
      clang.getPreprocessor().setTokenWatcher([](const clang::Token &token) {
        if (!token.isAnnotation()) {
          _exit(there_is_no_more);
        }
      });
      return true;
    }
    int status = 0;
    return scout < 0 || waitpid(scout, &status, 0) != scout || !WIFEXITED(status) ||
           WEXITSTATUS(status) != there_is_no_more;
  }

  void stop_at(clang::SourceLocation place) {
    const clang::SourceManager &sources = clang.getSourceManager();
    if (has_arrived || sources.getFileID(place) != sources.getMainFileID()) {
      return;
    }
    const Splice splice(clang);
    const std::size_t offset = splice.offset();
    const llvm::StringRef text = sources.getBufferData(sources.getMainFileID());
    const clang::LangOptions &options = clang.getLangOpts();
    if (summarize(text.substr(0, offset).str(), options).has_code) {
      has_arrived = true;
      return calls.arrive(std::nullopt);
    }
    // The text after the line must not become a part of it.
    const bool is_line = offset > 0 && text[offset - 1] == '\n';
    const TextSummary rest = summarize(text.substr(offset).str(), options);
    if (splice.has_read_ahead() || !is_line || rest.begins_with_include ||
        (rest.includes_first && has_more_includes())) {
      return;
    }
    has_arrived = true;
    calls.arrive(offset);
  }
};

// Compiles to an object, and calls back once.
class PausingAction : public clang::EmitObjAction {
 public:
  Watch::Calls calls;

 protected:
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance &clang, llvm::StringRef file) override {
    Splice(clang).reserve();
    clang.getPreprocessor().addPPCallbacks(std::make_unique<Watch>(clang, calls));
    return EmitObjAction::CreateASTConsumer(clang, file);
  }
};

// One compile, from its command line to its end.
class Compile {
 public:
  Compile(Recorder &recorder, GrowableText &main, std::string main_path, const PauseCallbacks &callbacks)
      : recorder(recorder), main(main), main_path(std::move(main_path)), callbacks(callbacks) {}

  int run(const std::vector<const char *> &line) {
    clang = std::make_unique<clang::CompilerInstance>();
    auto *buffer = new clang::TextDiagnosticBuffer;
    clang::DiagnosticsEngine early(new clang::DiagnosticIDs, new clang::DiagnosticOptions, buffer);
    const llvm::ArrayRef<const char *> options = llvm::ArrayRef(line).slice(2);
    if (!clang::CompilerInvocation::CreateFromArgs(clang->getInvocation(), options, early, line[0]) ||
        early.getClient()->getNumErrors() + early.getClient()->getNumWarnings() != 0 || !is_plain()) {
      refuse("it is not a plain compile of C or C++ to an object");
    }
    clang->createDiagnostics();
    clang->createFileManager(&recorder);
    auto stream = std::make_unique<LaterStream>();
    later = stream.get();
    clang->setOutputStream(std::move(stream));
    max_size = main.text().size() + room_to_grow;
    PausingAction action;
    action.calls.arrive = [&](std::optional<std::size_t> offset) { arrive(action, offset); };
    action.calls.refuse = [this](const char *why) { refuse(why); };
    const bool ok = clang->ExecuteAction(action);
    if (!has_paused) {
      refuse(no_leading_include);
    }
    if (const char *why = recorder.obstacle()) {
      refuse(why);
    }
    (void)clang.release();
    return ok ? 0 : 1;
  }

 private:
  static constexpr const char *no_leading_include = "it has no include before its own code",
                              *with_errors = "it or a header has errors";

  Recorder &recorder;
  GrowableText &main;
  const std::string main_path;
  const PauseCallbacks &callbacks;
  std::size_t max_size = 0;
  std::unique_ptr<clang::CompilerInstance> clang;
  LaterStream *later = nullptr;
  bool has_paused = false;

  [[noreturn]] void refuse(const char *why) {
    llvm::sys::RunInterruptHandlers();
    callbacks.give_up(why);
    _exit(1);
  }

  bool is_plain() const {
    const clang::FrontendOptions &options = clang->getFrontendOpts();
    if (options.ProgramAction != clang::frontend::EmitObj || options.Inputs.size() != 1 || !options.LLVMArgs.empty() ||
        !options.Plugins.empty()) {
      return false;
    }
    const clang::FrontendInputFile &input = options.Inputs[0];
    const clang::InputKind kind = input.getKind();
    const bool is_c = kind.getLanguage() == clang::Language::C || kind.getLanguage() == clang::Language::CXX;
    return input.isFile() && input.getFile() == main_path && is_c && kind.getFormat() == clang::InputKind::Source &&
           !kind.isPreprocessed();
  }

  // DiagnosticsEngine::TrapNumErrorsOccurred: includes suppressed errors.
  static bool has_erred(const clang::DiagnosticsEngine &said) {
    return said.hasErrorOccurred() || said.TrapNumErrorsOccurred != 0;
  }

  // Nothing may have been printed so far. A warning that was dropped because of a flag, a pragma or a system header is
  // not printed by a plain compile either; its only effect is state of this process, which the rest of the same parse
  // uses as usual. tests/clang/dropped.py covers the known dependencies on such state.
  void be_sound() {
    const clang::DiagnosticsEngine &said = clang->getDiagnostics();
    if (const char *why = recorder.obstacle()) {
      refuse(why);
    }
    if (has_erred(said)) {
      refuse(with_errors);
    }
    if (said.getNumWarnings() != 0) {
      refuse("its includes print warnings");
    }
    if (later->was_written || !is_silent()) {
      refuse("its includes print or write something");
    }
    if (!recorder.holds()) {
      refuse(Recorder::header_changed);
    }
  }

  // Called by the preprocessor when it returns to the main file or reaches its end.
  void arrive(PausingAction &action, std::optional<std::size_t> offset) {
    if (!offset) {
      refuse(has_erred(clang->getDiagnostics()) ? with_errors : no_leading_include);
    }
    be_sound();
    const Prefix prefix{&recorder, main_path, main.text().substr(0, *offset).str()};
    recorder.stop();
    has_paused = true;
    callbacks.pause(prefix);
    go_on(action, prefix);
  }

  void go_on(PausingAction &action, const Prefix &prefix) {
    if (!main.read(main_path) || !main.text().starts_with(prefix.text) || main.text().size() > max_size) {
      refuse("the beginning of its main file has changed");
    }
    if (!callbacks.is_same_line()) {
      refuse("its driver plans another command");
    }
    Splice splice(*clang);
    splice.replace(main.text());
    const clang::CodeGenerator *generator = action.getCodeGenerator();
    llvm::Module *module = generator ? const_cast<clang::CodeGenerator *>(generator)->GetModule() : nullptr;
    if (!module || !splice.sum(*module, main.text())) {
      refuse("its debug information is of another kind");
    }
    later->target = clang->createDefaultOutputFile(true, main_path, "o");
    if (!later->target) {
      refuse("its object cannot be written");
    }
  }
};

}  // namespace

bool Prefix::holds() const {
  if (!recorder->holds()) {
    return false;
  }
  std::string now(text.size(), '\0');
  std::ifstream file(main_path, std::ios::binary);
  return file.read(now.data(), static_cast<std::streamsize>(now.size())) && now == text;
}

std::optional<std::string> option_without_checkpoint(const std::vector<const char *> &line) {
  // Flags, options with a separate argument, and prefixes.
  static const llvm::StringSet<> alone = {"-cc1",
                                          "-emit-obj",
                                          "-disable-llvm-verifier",
                                          "-discard-value-names",
                                          "-disable-free",
                                          "-clear-ast-before-backend",
                                          "-pic-is-pie",
                                          "-fmath-errno",
                                          "-fno-rounding-math",
                                          "-mconstructor-aliases",
                                          "-sys-header-deps",
                                          "-pthread",
                                          "-fcommon",
                                          "-fno-implicit-modules",
                                          "-fdeprecated-macro",
                                          "-fskip-odr-check-in-gmf",
                                          "-fcxx-exceptions",
                                          "-fexceptions",
                                          "-fcolor-diagnostics",
                                          "-faddrsig",
                                          "-vectorize-loops",
                                          "-vectorize-slp",
                                          "-w",
                                          "-ffunction-sections",
                                          "-fdata-sections",
                                          "-fno-rtti",
                                          "-fstack-clash-protection",
                                          "-relaxed-aliasing",
                                          "-fwrapv",
                                          "-MP",
                                          "-pedantic",
                                          "-fvisibility-inlines-hidden",
                                          "-fno-unroll-loops",
                                          "-fno-verbose-asm",
                                          "-fhalf-no-semantic-interposition",
                                          "-fno-signed-char"};
  static const llvm::StringSet<> with_one = {"-triple",
                                             "-main-file-name",
                                             "-mrelocation-model",
                                             "-pic-level",
                                             "-target-cpu",
                                             "-tune-cpu",
                                             "-target-feature",
                                             "-resource-dir",
                                             "-dependency-file",
                                             "-MT",
                                             "-D",
                                             "-U",
                                             "-I",
                                             "-isystem",
                                             "-include",
                                             "-iquote",
                                             "-idirafter",
                                             "-internal-isystem",
                                             "-internal-externc-isystem",
                                             "-c-isystem",
                                             "-cxx-isystem",
                                             "-ferror-limit",
                                             "-stack-protector",
                                             "-stack-protector-buffer-size",
                                             "-o",
                                             "-x"};
  static constexpr llvm::StringRef beginnings[] = {"-mframe-pointer=",
                                                   "-ffp-contract=",
                                                   "-funwind-tables=",
                                                   "-debug-info-kind=",
                                                   "-dwarf-version=",
                                                   "-debugger-tuning=",
                                                   "-fdebug-compilation-dir=",
                                                   "-fcoverage-compilation-dir=",
                                                   "-O",
                                                   "-W",
                                                   "-I",
                                                   "-std=",
                                                   "-fgnuc-version=",
                                                   "-D",
                                                   "-U",
                                                   "-fvisibility=",
                                                   "-fcf-protection=",
                                                   "-fdebug-prefix-map=",
                                                   "-fmacro-prefix-map=",
                                                   "-fcoverage-prefix-map=",
                                                   "-fno-builtin"};
  for (std::size_t i = 1; i + 1 < line.size(); i++) {
    const llvm::StringRef word = line[i];
    if (with_one.contains(word)) {
      i++;
    } else if (!alone.contains(word) && std::none_of(std::begin(beginnings), std::end(beginnings),
                                                     [&](llvm::StringRef it) { return word.starts_with(it); })) {
      return word.str();
    }
  }
  return std::nullopt;
}

int compile_with_pause(const std::vector<const char *> &line, Recorder &recorder, GrowableText &main,
                       const std::string &main_path, const PauseCallbacks &callbacks) {
  return Compile(recorder, main, main_path, callbacks).run(line);
}

}  // namespace tanto
