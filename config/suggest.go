package config

import (
	"slices"
	"strings"
)

// habits are keys that people know from other schedulers.
var habits = map[string]string{
	"cron":               "schedule",
	"crons":              "schedules",
	"cmd":                "command",
	"args":               "command",
	"script":             "shell",
	"run":                "shell",
	"url":                "http",
	"environment":        "env",
	"cwd":                "working_dir",
	"dir":                "working_dir",
	"tz":                 "timezone",
	"time_zone":          "timezone",
	"disabled":           "suspend",
	"enabled":            "suspend",
	"paused":             "suspend",
	"concurrency_policy": "concurrency",
	"overlap":            "concurrency",
	"retry":              "retries",
	"attempts":           "retries",
	"queue":              "pool",
	"concurrent":         "max_running",
	"max_concurrent":     "max_running",
	"addr":               "addrs",
	"address":            "addrs",
	"hosts":              "servers",
	"password":           "password_file",
}

// Suggest returns the one of known that was meant by word, or "".
func Suggest(word string, known []string) string {
	key := strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(word))
	if slices.Contains(known, key) {
		return key
	}
	best, bestDistance := "", 1+max(1, min(len(word)/3, 3))
	for _, k := range known {
		if d := distance(key, strings.ToLower(k), bestDistance); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if best != "" {
		return best
	}
	if k := habits[key]; slices.Contains(known, k) {
		return k
	}
	return ""
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
