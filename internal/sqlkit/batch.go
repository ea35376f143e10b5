package sqlkit

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// Limits of one statement: SQLite takes 32,766 parameters, MySQL max_allowed_packet bytes (16 MiB on
// MariaDB; a byte of a BLOB may take two).
const (
	MaxArgs  = 30_000
	MaxBytes = 1 << 20
	MaxRows  = 500 // where statements with many rows stop getting cheaper
)

// Marks is n placeholders: "?,?,?".
func Marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

// Distinct has each element once, in order, which is that of the locks in every batch.
func Distinct[T cmp.Ordered](list []T) []T { return slices.Compact(slices.Sorted(slices.Values(list))) }

// Portions cuts a list, in its order, into parts for one statement each: at most that many
// elements, and at most MaxBytes of text if size tells that of one.
func Portions[T any](list []T, most int, size func(T) int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for len(list) > 0 {
			n, bytes := 0, 0
			for n < min(len(list), most) {
				if bytes += size(list[n]); n > 0 && bytes > MaxBytes {
					break
				}
				n++
			}
			if !yield(list[:n:n]) {
				return
			}
			list = list[n:]
		}
	}
}
