// Package mutants is mutation testing: it makes small changes to a package, one at a time, and runs its tests:
// a term of a condition removed, a comparison off by one, a statement removed; a value replaced by another of
// its type (a field, a variable, an argument), min for max, before for after, a copy removed; and, in SQL, each
// operand of AND and OR and each assignment of SET; and, in Lua scripts, conditions, operands, comparisons,
// calls, the fields of an HSET and the arguments of math.max. A mutant that no test notices either needs a
// test, or changes nothing visible, which equivalents.txt then says.
//
//	build: all mutants in one test binary, behind switches (environment variables)
//	trace: each test alone, without a mutant: which mutants does it reach?
//	judge: for each mutant, the tests that reach it, the quick ones first, until one fails
//
// Nothing in the source changes. Mutants of Go are written into a copy of the source of the package. Mutants of
// SQL are made by package database/sql, where it passes a statement to its driver: so they cover every
// statement that the package sends, however its text was built. Mutants of Lua are in the text of a script that
// the package embeds, which is replaced before its first use. They are tried with all tests, since the server
// that runs them does not report which lines it reached.
package mutants
