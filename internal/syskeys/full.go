package syskeys

import (
	"fmt"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
)

const (
	// User is what all keys but the scheduler's start with: it is put in front where it is missing.
	User = "user/"
	// MaxKey is how many bytes a key has at most, counted with what it starts with.
	MaxKey = 200

	shown = 60 // bytes of a key in an error
)

// Full returns the key as the lock service holds it: "a" and "user/a" are one key. sys allows the scheduler's own keys. The error says
// what is wrong with the key, and names it.
func Full(key string, sys bool) (string, error) {
	full := key
	switch {
	case strings.HasPrefix(key, User):
	case strings.HasPrefix(key, Prefix):
		if !sys {
			return "", fmt.Errorf("key %s: keys that start with %s are the scheduler's: choose another", clip.Quoted(key, shown), Prefix)
		}
	default:
		full = User + key
	}
	if full == User || !Printable(full, MaxKey) {
		long := ""
		if len(full) > MaxKey {
			long = fmt.Sprintf("; it has %d bytes", len(full))
		}
		return "", fmt.Errorf("key %s: must be 1 to %d printable ASCII characters without blanks, counted with %s in front%s", clip.Quoted(key, shown), MaxKey, User, long)
	}
	return full, nil
}

// Printable reports whether s is 1 to most printable ASCII characters without blanks.
func Printable(s string, most int) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
