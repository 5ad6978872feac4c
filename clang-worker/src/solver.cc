// The static analyser's solver, which Debian has as a shared library only. Nobody asks for it: -analyze is left to a
// process of its own. All that the object in LLVM's archive defines is here, so that it stays out.

#include "llvm/Support/SMTAPI.h"

namespace llvm {

SMTSolverRef CreateZ3Solver() { return nullptr; }

void SMTSort::dump() const {}
void SMTExpr::dump() const {}
void SMTSolver::dump() const {}
void SMTSolverStatistics::dump() const {}

}  // namespace llvm
