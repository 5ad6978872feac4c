// Replaces the static analyser's solver, which Debian has only as a shared library. It is never used: -analyze is left
// to a real process. All symbols of the object in LLVM's archive are defined here, so that it is not linked.

#include "llvm/Support/SMTAPI.h"

namespace llvm {

SMTSolverRef CreateZ3Solver() { return nullptr; }

void SMTSort::dump() const {}
void SMTExpr::dump() const {}
void SMTSolver::dump() const {}
void SMTSolverStatistics::dump() const {}

}  // namespace llvm
