package exechandler

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// always are the variables that every command gets from Environ, sorted.
var always = []string{"HOME", "LANG", "PATH", "TZ"}

// defaultPath is used where Environ has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

var namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// environment is the environment of every run of c, without the variables of a task, sorted by name.
func environment(c Command) ([]string, error) {
	entries := standard(c.Environ)
	if len(c.PassEnv)+len(c.EnvFiles)+len(c.Env) == 0 {
		return entries, nil
	}
	env, given := variables(entries), variables(c.Environ)
	var problems []error
	for _, pattern := range c.PassEnv {
		problems = append(problems, pass(env, given, pattern))
	}
	for _, file := range c.EnvFiles {
		read, err := readEnvFile(file)
		maps.Copy(env, read)
		problems = append(problems, err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if err := checkVariable(name, c.Env[name]); err != nil {
			problems = append(problems, fmt.Errorf("%w: env: %w", jobs.ErrInvalid, err))
		}
		env[name] = c.Env[name]
	}
	entries = entries[:0]
	for _, name := range slices.Sorted(maps.Keys(env)) {
		entries = append(entries, name+"="+env[name])
	}
	return entries, errors.Join(problems...)
}

// standard are the entries of the variables that every command gets.
func standard(environ []string) []string {
	entries := make([]string, 0, len(always))
	for _, name := range always {
		entry := entryOf(environ, name)
		if entry == "" && name == "PATH" {
			entry = "PATH=" + defaultPath
		}
		if entry != "" {
			entries = append(entries, entry)
		}
	}
	return entries
}

// entryOf is the entry of a variable, the last of several; "" if there is none.
func entryOf(entries []string, name string) (last string) {
	for _, entry := range entries {
		if strings.HasPrefix(entry, name) && strings.HasPrefix(entry[len(name):], "=") {
			last = entry
		}
	}
	return last
}

// variables are the values of entries by name; the last of several counts.
func variables(entries []string) map[string]string {
	all := make(map[string]string, len(entries))
	for _, entry := range entries {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			all[name] = value
		}
	}
	return all
}

// pass copies the variables that match the pattern, but not those that make programs load other code, and those
// that identify a task.
func pass(env, given map[string]string, pattern string) error {
	if pattern == "" || strings.ContainsAny(pattern, "=\x00") {
		return fmt.Errorf("%w: pass_env: %.80q is not a name or pattern", jobs.ErrInvalid, pattern)
	}
	if loads(pattern) {
		return fmt.Errorf("%w: pass_env: %s makes programs load other code; set it in env if that is meant", jobs.ErrInvalid, pattern)
	}
	for name, value := range given {
		match, err := path.Match(pattern, name)
		if err != nil {
			return fmt.Errorf("%w: pass_env: %.80q is not a pattern; close its brackets", jobs.ErrInvalid, pattern)
		}
		if match && !loads(name) && !reserved(name) {
			env[name] = value
		}
	}
	return nil
}

// loads reports whether a variable makes the loader or a shell run code that it names.
func loads(name string) bool {
	switch name {
	case "BASH_ENV", "ENV", "GCONV_PATH", "PERL5OPT", "RUBYOPT":
		return true
	}
	return strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_") || strings.HasPrefix(name, "BASH_FUNC_")
}

func reserved(name string) bool { return strings.HasPrefix(name, "LOCKSTEP_") || name == "TRACEPARENT" }

// checkVariable never shows a value: it may be a secret.
func checkVariable(name, value string) error {
	switch {
	case !namePattern.MatchString(name):
		return fmt.Errorf("%.80q is not a name of a variable; use letters, digits and _", name)
	case reserved(name):
		return fmt.Errorf("%s is set for each task; choose another name", name)
	case strings.ContainsRune(value, 0):
		return fmt.Errorf("the value of %s has a NUL character", name)
	}
	return nil
}
