package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxNesting bounds defaults within defaults, ${A:-${B:-…}}.
const maxNesting = 10

// interpolate replaces ${VAR} and ${VAR:-default} by variables of env, and $$ by a dollar sign. The default is used
// when the variable is unset or empty; braces in it come in pairs: ${A:-{}} is {} without A. The result is text. The
// error is a problem and a hint; neither has a variable's value.
func interpolate(text string, env func(string) (string, bool), depth int) (result, problem, hint string) {
	if depth > maxNesting {
		return "", fmt.Sprintf("defaults are nested more than %d deep", maxNesting), ""
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			return b.String(), "", ""
		}
		switch {
		case strings.HasPrefix(rest, "$"):
			b.WriteByte('$')
			text = rest[1:]
			continue
		case !strings.HasPrefix(rest, "{"):
			if name := variable(rest); name != "" {
				return "", fmt.Sprintf("$%s is neither a variable nor a dollar sign", name), fmt.Sprintf("write ${%s} for the variable, $$ for a dollar sign", name)
			}
			return "", "a lone $", "write $$ for a dollar sign"
		}
		end := closing(rest)
		if end < 0 {
			return "", "${ without }", "braces in a default come in pairs; write $$ for a dollar sign"
		}
		inside := rest[1:end]
		text = rest[end+1:]
		name := variable(inside)
		after := inside[len(name):]
		fallback, hasDefault := strings.CutPrefix(after, ":-")
		if name == "" || (after != "" && !hasDefault) {
			return "", fmt.Sprintf("${%s} cannot be read", inside), "forms are ${VAR} and ${VAR:-default}; $$ is a dollar sign"
		}
		value, set := env(name)
		switch {
		case hasDefault && value == "":
			value, problem, hint = interpolate(fallback, env, depth+1)
			if problem != "" {
				return "", problem, hint
			}
		case !set:
			return "", fmt.Sprintf("the environment variable %s is not set", name), fmt.Sprintf("set it, or give a default: ${%s:-…}", name)
		}
		b.WriteString(value)
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)

// variable returns the name of a variable that text starts with.
func variable(text string) string { return variableName.FindString(text) }

// variablesOf lists the variables in text.
func variablesOf(text string) string {
	var names []string
	for _, part := range strings.Split(text, "${")[1:] {
		if name := variable(part); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 1 {
		return "the variable " + names[0]
	}
	return "one of the variables " + strings.Join(names, ", ")
}

// closing returns the index of the brace that matches the one at text[0], or -1.
func closing(text string) int {
	depth := 0
	for i := range len(text) {
		switch {
		case text[i] == '}':
			if depth--; depth == 0 {
				return i
			}
		case text[i] == '{':
			depth++
		}
	}
	return -1
}
