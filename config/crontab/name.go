package crontab

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// before are words that precede the program's name in a command.
var before = strings.Fields("env exec nice ionice nohup sudo time timeout chronic flock setsid command root test [ cd . source " +
	"sh bash dash ksh zsh python python2 python3 perl php ruby node java")

var (
	nameParts = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
	setting   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	number    = regexp.MustCompile(`^[0-9.]+[smhd]?$`)
	ending    = regexp.MustCompile(`\.(sh|bash|py|pl|php|rb|js|jar)$`)
)

// longestName leaves room for a number at the end.
const longestName = 56

// name derives a unique name from the program that a command runs.
func (t *reading) name(script string) string {
	name := nameParts.ReplaceAllString(program(script), "-")
	name = ending.ReplaceAllString(name, "")
	name = strings.Trim(name[:min(len(name), longestName)], "._-")
	if name == "" {
		name = "job"
	}
	unique := name
	for n := 2; t.taken[strings.ToLower(unique)]; n++ {
		unique = name + "-" + strconv.Itoa(n)
	}
	t.taken[strings.ToLower(unique)] = true
	return unique
}

// program returns the word that names the program: after assignments, changes of folder, tests and wrappers.
func program(script string) string {
	script = strings.TrimPrefix(script, "{\n")
	script, _, _ = strings.Cut(script, "\n")
	if _, behind, found := cutGuard(script); found {
		script = behind
	}
	best := ""
	for word := range strings.FieldsSeq(script) {
		word = strings.Trim(word, `"'();{}`)
		base := path.Base(word)
		switch {
		case word == "" || setting.MatchString(word) || strings.HasPrefix(word, "-") || number.MatchString(word):
		case slices.Contains(before, base):
			best = base
		default:
			return base
		}
	}
	return best
}

// cutGuard cuts a leading condition or cd: "cd /x && ", "test -x y || ", "[ … ] && ".
func cutGuard(script string) (guard, rest string, found bool) {
	first, _, _ := strings.Cut(script, " ")
	if !slices.Contains([]string{"cd", "test", "[", "command"}, first) {
		return "", script, false
	}
	i := strings.LastIndex(script, "&&")
	if j := strings.Index(script, "||"); j >= 0 && i < 0 {
		i = j
	}
	if i < 0 {
		return "", script, false
	}
	return script[:i], script[i+2:], true
}
