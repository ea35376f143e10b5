// Package nearest finds the known name closest to an unknown one.
package nearest

import "strings"

// Of returns the closest of known within the distance of a typing error, whatever their case, or "".
func Of(word string, known []string) string {
	word = strings.ToLower(word)
	best, bestDistance := "", 1+max(1, min(len(word)/3, 3))
	for _, k := range known {
		if d := distance(word, strings.ToLower(k), bestDistance); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is the number of characters to insert, delete, replace or swap between a and b; limit
// or more counts as limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit || len(a) > 64 || len(b) > 64 {
		return limit
	}
	var rows [3][65]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}
