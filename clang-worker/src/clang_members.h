// The private members of clang and LLVM that a checkpoint reads or changes: all that depends on their version. Only
// checkpoint.cc, which is compiled with -fno-access-control, includes this file.
//
// To add a version: compare each member with the headers of that version, add a case where it differs, add the version
// to `checked_versions` and CMakeLists.txt, and run ./test clang.

#pragma once

#include <algorithm>
#include <iterator>

#include "clang/Basic/SourceManager.h"
#include "clang/Basic/Version.h"
#include "clang/Lex/Lexer.h"
#include "clang/Lex/Preprocessor.h"
#include "llvm/IR/DebugInfoMetadata.h"

namespace tanto::members {

constexpr int checked_versions[] = {19};
static_assert(std::find(std::begin(checked_versions), std::end(checked_versions), CLANG_VERSION_MAJOR) !=
                  std::end(checked_versions),
              "the private members were not checked for this version of clang");

// The lexer of the main file.
inline clang::Lexer &lexer(const clang::Preprocessor &preprocessor) { return *preprocessor.CurLexer; }

// Its position, and the begin and end of its text.
inline const char *&position(clang::Lexer &lexer) { return lexer.BufferPtr; }
inline const char *begin(const clang::Lexer &lexer) { return lexer.BufferStart; }
inline const char *&end(clang::Lexer &lexer) { return lexer.BufferEnd; }

// Tokens that were read ahead, and the position in them.
inline std::size_t cached_tokens(const clang::Preprocessor &preprocessor) { return preprocessor.CachedTokens.size(); }
inline std::size_t cached_position(const clang::Preprocessor &preprocessor) { return preprocessor.CachedLexPos; }

// The first location after those of all files.
inline clang::SourceLocation::UIntTy &next_location(clang::SourceManager &sources) { return sources.NextLocalOffset; }

// Forgets the last lookup of a line.
inline void forget_line(clang::SourceManager &sources) {
  sources.LastLineNoFileIDQuery = clang::FileID();
  sources.LastLineNoContentCache = nullptr;
}

// The content of a file.
inline clang::SrcMgr::ContentCache &content(const clang::SourceManager &sources, clang::FileID id) {
  return const_cast<clang::SrcMgr::ContentCache &>(sources.getSLocEntry(id).getFile().getContentCache());
}

// Its text, the starts of its lines, and the size of the file.
inline std::unique_ptr<llvm::MemoryBuffer> &buffer(clang::SrcMgr::ContentCache &content) { return content.Buffer; }
inline void forget_lines(clang::SrcMgr::ContentCache &content) { content.SourceLineCache = {}; }
inline off_t &size(clang::SrcMgr::ContentCache &content) {
  return const_cast<clang::FileEntry &>(content.OrigEntry->getFileEntry()).Size;
}

// The checksum of a file in the debug information, also its operand with this number, and the index by content, from
// which it is removed while it changes.
inline auto &checksum(llvm::DIFile &file) { return file.Checksum; }
constexpr unsigned checksum_operand = 2;
inline void remove_from_index(llvm::DIFile &file) { file.eraseFromStore(); }
inline void add_to_index(llvm::DIFile &file) { file.uniquify(); }
inline void set_operand(llvm::DIFile &file, unsigned number, llvm::Metadata *value) { file.setOperand(number, value); }

}  // namespace tanto::members
