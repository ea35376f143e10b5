package nearest

import (
	"slices"
	"strings"
)

// habits are names of keys in other schedulers.
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
	"rate_limit":         "rate",
	"ratelimit":          "rate",
	"throttle":           "rate",
	"burst_size":         "burst",
	"addr":               "addrs",
	"address":            "addrs",
	"hosts":              "servers",
	"password":           "password_file",
}

// Key is Of for keys of the configuration and flags, which may have another name elsewhere.
func Key(word string, known []string) string {
	key := strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(word))
	if slices.Contains(known, key) {
		return key
	}
	if best := Of(key, known); best != "" {
		return best
	}
	if k := habits[key]; slices.Contains(known, k) {
		return k
	}
	return ""
}
