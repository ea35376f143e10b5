// Package mutants asks whether a package's own tests notice small mistakes in it, made one at a time:
// a term of a condition that is missing, a comparison off by one, a statement left out; a value taken for another of its
// type (a field, a variable, an argument), the smaller for the larger, before for after, a copy left out; and, in SQL, each
// operand of AND and OR and each assignment of SET; and, in Lua scripts, conditions, operands, comparisons, calls,
// the fields of an HSET and what the larger is taken of. A mistake that no test notices either needs a test, or changes
// nothing that anybody can see, which equivalents.txt then says.
//
// All mistakes of a package are built into one test binary, behind switches that environment variables turn
// on; nothing in the source changes, and a normal build knows nothing of it. Those in Go are written into the source of
// the package. Those in SQL are made by package database/sql, where it hands a statement to its driver: so they are
// found in whatever the package sends, however its text was put together. Those in Lua are in the text of a script that
// the package embeds, which is replaced before anything is made of it. Each test then runs once alone, to see which
// mistakes it comes by, and each mistake is tried with the tests that come by it, the quick ones first; those in Lua
// with all tests, since the server that runs them does not say where it has been.
package mutants
