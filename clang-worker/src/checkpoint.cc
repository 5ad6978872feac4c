// A compile in two halves.
//
// It is one parse: the process that has read the leading includes waits within the preprocessor's callback, a fork of
// it has the rest of the main file replaced below its lexer, and goes on. All that reaches past clang's public
// interface is here (the file is compiled alone with -fno-access-control), in `Splice`, and each field says why.

#include "checkpoint.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "clang/Basic/Version.h"
#include "clang/CodeGen/CodeGenAction.h"
#include "clang/CodeGen/ModuleBuilder.h"
#include "clang/CodeGen/ObjectFilePCHContainerOperations.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Frontend/TextDiagnosticBuffer.h"
#include "clang/Lex/Lexer.h"
#include "clang/Lex/PPCallbacks.h"
#include "clang/Lex/Preprocessor.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MD5.h"
#include "llvm/Support/Signals.h"

static_assert(CLANG_VERSION_MAJOR == 19, "what reaches past the public interface was read for this version");

namespace tanto {
namespace {

// By so much the main file may grow.
constexpr clang::SourceLocation::UIntTy room_to_grow = 4 << 20;

// The object, which is opened when it is known who writes it.
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

// Is a directive of this kind one that reads another file?
bool is_inclusion(llvm::StringRef word) { return word == "include" || word == "import" || word == "include_next"; }

// What a piece of the main file's top level holds, by its text alone.
struct Sight {
  bool has_code = false;             // something that is no directive
  bool includes_first = false;       // before that, a directive that reads another file
  bool begins_with_include = false;  // the first directive does
};

// A lexer wants a NUL behind its text.
Sight look(const std::string &piece, const clang::LangOptions &options) {
  const llvm::StringRef text(piece);
  Sight sight;
  clang::Lexer lexer(clang::SourceLocation(), options, text.begin(), text.begin(), text.end());
  clang::Token token;
  bool in_directive = false, after_hash = false, is_first = true;
  for (;;) {
    lexer.LexFromRawLexer(token);
    if (token.is(clang::tok::eof)) {
      return sight;
    }
    if (token.isAtStartOfLine()) {
      in_directive = after_hash = token.is(clang::tok::hash);
      sight.has_code = sight.has_code || !in_directive;
    } else if (after_hash) {
      const bool includes = token.is(clang::tok::raw_identifier) && is_inclusion(token.getRawIdentifier());
      sight.includes_first = sight.includes_first || includes;
      sight.begins_with_include = sight.begins_with_include || (includes && is_first);
      after_hash = is_first = false;
    }
    if (sight.has_code) {
      return sight;
    }
  }
}

// Puts another rest of the main file into a compile that waits before it. `-fno-access-control` is for this class.
class Splice {
 public:
  explicit Splice(clang::CompilerInstance &clang) : clang(clang), sources(clang.getSourceManager()) {}

  // SourceManager::NextLocalOffset: the numbers of places behind the main file's own stay free, for it to grow.
  void reserve() { sources.NextLocalOffset += room_to_grow; }

  // Lexer::BufferPtr, BufferStart: how far the main file was read. The lexer is Preprocessor::CurLexer.
  std::size_t offset() const {
    const clang::Lexer *lexer = clang.getPreprocessor().CurLexer.get();
    return static_cast<std::size_t>(lexer->BufferPtr - lexer->BufferStart);
  }

  // Preprocessor::CachedTokens: what was read ahead of the parser would be of the old text.
  bool has_read_ahead() const {
    const clang::Preprocessor &preprocessor = clang.getPreprocessor();
    return preprocessor.CachedTokens.size() != preprocessor.CachedLexPos;
  }

  void replace(llvm::StringRef text) {
    const clang::FileID id = sources.getMainFileID();
    const auto &content = sources.getSLocEntry(id).getFile().getContentCache();
    auto &own = const_cast<clang::SrcMgr::ContentCache &>(content);
    const llvm::StringRef name = content.Buffer->getBufferIdentifier();
    // ContentCache::Buffer: the text itself, at the same address.
    own.Buffer = llvm::MemoryBuffer::getMemBuffer(text, name);
    // ContentCache::SourceLineCache: where the old text's lines begin.
    own.SourceLineCache = {};
    // SourceManager::LastLineNo...: the last answer about lines.
    sources.LastLineNoFileIDQuery = clang::FileID();
    sources.LastLineNoContentCache = nullptr;
    // FileEntry::Size: what the file's size was.
    const_cast<clang::FileEntry &>(content.OrigEntry->getFileEntry()).Size = static_cast<off_t>(text.size());
    // Lexer::BufferEnd: where it stops.
    clang::Lexer *lexer = clang.getPreprocessor().CurLexer.get();
    lexer->BufferEnd = lexer->BufferStart + text.size();
  }

  // The debug information's note of the main file has the sum of its text: DIFile::Checksum, and the same as an
  // operand. False: it has a sum of another kind.
  bool sum(llvm::Module &module, llvm::StringRef text) const {
    for (llvm::DICompileUnit *unit : module.debug_compile_units()) {
      llvm::DIFile *file = unit->getFile();
      if (!file->Checksum) {
        continue;
      }
      if (file->Checksum->Kind != llvm::DIFile::CSK_MD5) {
        return false;
      }
      llvm::SmallString<32> digits;
      llvm::toHex(llvm::MD5::hash(llvm::arrayRefFromStringRef(text)), true, digits);
      llvm::MDString *value = llvm::MDString::get(module.getContext(), digits);
      // It is found by its content, and so is taken out while that changes.
      file->eraseFromStore();
      file->Checksum->Value = value;
      file->setOperand(2, value);
      file->uniquify();
    }
    return true;
  }

 private:
  clang::CompilerInstance &clang;
  clang::SourceManager &sources;
};

// What is not the same when it is asked for again, in a user's words.
constexpr const char *of_its_time = "it or a header uses __DATE__, __TIME__ or __TIMESTAMP__",
                     *of_embedding = "it or a header uses #embed or __has_embed",
                     *of_modules = "it or a header imports a module";

// What is written to these two would have been said to the user.
bool is_silent() {
  struct stat out{}, errors{};
  return llvm::outs().tell() == 0 && fstat(1, &out) == 0 && fstat(2, &errors) == 0 && out.st_size == 0 &&
         errors.st_size == 0;
}

// Waits for the last return from an include before the main file's own code.
class Watch : public clang::PPCallbacks {
 public:
  // Where the compile is to pause, if anywhere; and that it may not, or not go on, said as soon as that is known.
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
      refuse(Witness::of_itself);
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

  // One that was read before, and has a guard, is not entered.
  void FileSkipped(const clang::FileEntryRef &, const clang::Token &name, clang::SrcMgr::CharacteristicKind) override {
    stop_at(name.getLocation());
  }

  void MacroExpands(const clang::Token &name, const clang::MacroDefinition &, clang::SourceRange,
                    const clang::MacroArgs *) override {
    const llvm::StringRef word = name.getIdentifierInfo()->getName();
    if (word == "__DATE__" || word == "__TIME__" || word == "__TIMESTAMP__") {
      refuse(of_its_time);
    } else if (word == "__has_embed") {
      refuse(of_embedding);
    }
  }

  void EmbedDirective(clang::SourceLocation, llvm::StringRef, bool, clang::OptionalFileEntryRef,
                      const clang::LexEmbedParametersResult &) override {
    refuse(of_embedding);
  }

  void moduleImport(clang::SourceLocation, clang::ModuleIdPath, const clang::Module *) override { refuse(of_modules); }

 private:
  clang::CompilerInstance &clang;
  const Calls calls;
  bool has_arrived = false;
  bool is_scout = false;
  static constexpr int there_is_no_more = 40, there_is_more = 41;

  // What a scout meets, its parent will.
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

  // Is an include that this text tells of before the main file's code really read, or is it behind an `#if`? A fork
  // goes on, and finds out.
  bool is_more_to_come() {
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
    if (look(text.substr(0, offset).str(), options).has_code) {
      has_arrived = true;
      return calls.arrive(std::nullopt);
    }
    // What comes behind the line must not become a part of it.
    const bool is_line = offset > 0 && text[offset - 1] == '\n';
    const Sight rest = look(text.substr(offset).str(), options);
    if (splice.has_read_ahead() || !is_line || rest.begins_with_include || (rest.includes_first && is_more_to_come())) {
      return;
    }
    has_arrived = true;
    calls.arrive(offset);
  }
};

// Compiles to an object, and calls back once.
class HalvingAction : public clang::EmitObjAction {
 public:
  Watch::Calls calls;

 protected:
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance &clang, llvm::StringRef file) override {
    Splice(clang).reserve();
    clang.getPreprocessor().addPPCallbacks(std::make_unique<Watch>(clang, calls));
    return EmitObjAction::CreateASTConsumer(clang, file);
  }
};

// One compile, from its line to its end.
class Compile {
 public:
  Compile(Witness &witness, Roomy &main, std::string main_path, const Halt &halt)
      : witness(witness), main(main), main_path(std::move(main_path)), halt(halt) {}

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
    clang->createFileManager(&witness);
    auto stream = std::make_unique<LaterStream>();
    later = stream.get();
    clang->setOutputStream(std::move(stream));
    most_size = main.text().size() + room_to_grow;
    HalvingAction action;
    action.calls.arrive = [&](std::optional<std::size_t> offset) { arrive(action, offset); };
    action.calls.refuse = [this](const char *why) { refuse(why); };
    const bool ok = clang->ExecuteAction(action);
    if (!has_paused) {
      refuse(nowhere);
    }
    if (const char *why = witness.obstacle()) {
      refuse(why);
    }
    (void)clang.release();
    return ok ? 0 : 1;
  }

 private:
  static constexpr const char *nowhere = "it has no include before its own code", *erring = "it or a header has errors";

  Witness &witness;
  Roomy &main;
  const std::string main_path;
  const Halt &halt;
  std::size_t most_size = 0;
  std::unique_ptr<clang::CompilerInstance> clang;
  LaterStream *later = nullptr;
  bool has_paused = false;

  [[noreturn]] void refuse(const char *why) {
    llvm::sys::RunInterruptHandlers();
    halt.give_up(why);
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

  // DiagnosticsEngine::TrapNumErrorsOccurred: errors, those too that nobody was to hear of.
  static bool has_erred(const clang::DiagnosticsEngine &said) {
    return said.hasErrorOccurred() || said.TrapNumErrorsOccurred != 0;
  }

  // Nothing may have been said so far. A warning that was dropped, for a flag, a pragma or a system header, is not
  // said by a plain compile either; all that it leaves is in this process's memory, where the rest of the same parse
  // finds it as it would have. tests/clang/dropped.py has what is known to depend on such.
  void be_sound() {
    const clang::DiagnosticsEngine &said = clang->getDiagnostics();
    if (const char *why = witness.obstacle()) {
      refuse(why);
    }
    if (has_erred(said)) {
      refuse(erring);
    }
    if (said.getNumWarnings() != 0) {
      refuse("its includes print warnings");
    }
    if (later->was_written || !is_silent()) {
      refuse("its includes print or write something");
    }
    if (!witness.holds()) {
      refuse(Witness::of_change);
    }
  }

  // In the preprocessor, which has just come back to the main file, or is through with it.
  void arrive(HalvingAction &action, std::optional<std::size_t> offset) {
    if (!offset) {
      refuse(has_erred(clang->getDiagnostics()) ? erring : nowhere);
    }
    be_sound();
    const Prefix prefix{&witness, main_path, main.text().substr(0, *offset).str()};
    witness.rest();
    has_paused = true;
    halt.pause(prefix);
    go_on(action, prefix);
  }

  void go_on(HalvingAction &action, const Prefix &prefix) {
    if (!main.read(main_path) || !main.text().starts_with(prefix.text) || main.text().size() > most_size) {
      refuse("its main file begins with something else");
    }
    if (!halt.is_same_line()) {
      refuse("its driver comes to something else");
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
  if (!witness->holds()) {
    return false;
  }
  std::string now(text.size(), '\0');
  std::ifstream file(main_path, std::ios::binary);
  return file.read(now.data(), static_cast<std::streamsize>(now.size())) && now == text;
}

std::optional<std::string> option_without_checkpoint(const std::vector<const char *> &line) {
  // Alone; with a word of their own behind them; and those that are only a beginning.
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

int compile_in_halves(const std::vector<const char *> &line, Witness &witness, Roomy &main,
                      const std::string &main_path, const Halt &halt) {
  return Compile(witness, main, main_path, halt).run(line);
}

}  // namespace tanto
