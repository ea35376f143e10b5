// Package mistakes has the classic mistakes of distributed locks, a test for each. It first runs the naive form on a real
// server, in the interleaving that breaks it, and requires that it breaks. Then it runs locks in the same interleaving, and
// requires that it holds. Tests only.
//
// Each interleaving is driven by hand, step by step: no test depends on two goroutines meeting by chance.
//
//	go test -v ./locks/mistakes
package mistakes
