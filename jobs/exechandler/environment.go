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

// always are the variables that every command gets from Environ.
var always = []string{"PATH", "HOME", "LANG", "TZ"}

// defaultPath is used where Environ has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

var namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// environment is the environment of every run of c, without the variables of a task.
func environment(c Command) (map[string]string, error) {
	given := map[string]string{}
	for _, entry := range c.Environ {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			given[name] = value
		}
	}
	env := map[string]string{"PATH": defaultPath}
	for _, name := range always {
		if value, ok := given[name]; ok {
			env[name] = value
		}
	}
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
	return env, errors.Join(problems...)
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
