package crontab

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// YAML formats the table as a valid configuration. LeftOut and Notes are comments in it.
func (t *Table) YAML() string {
	w := &writer{}
	source := "a crontab"
	if t.Source != "" {
		source = clean(t.Source, 200)
	}
	w.line("# Converted from %s. Check it: scheduler validate", source)
	w.line("version: 1")
	w.remarks("Left out:", t.LeftOut)
	w.remarks("Converted, with differences:", t.Notes)
	shared := t.shared()
	w.line("")
	w.line("# cron starts a command while an earlier run goes on, and does not catch up. Without concurrency and")
	w.line("# catch_up here, the scheduler's defaults apply: forbid, and latest.")
	w.line("defaults:")
	if t.Timezone != "" {
		w.line("  timezone: %s", scalar(t.Timezone))
	}
	w.line("  concurrency: allow")
	w.line("  catch_up: {policy: none}")
	w.variables("  ", shared)
	w.line("")
	if len(t.Jobs) == 0 {
		w.line("jobs: {}")
		return w.String()
	}
	w.line("jobs:")
	for i, j := range t.Jobs {
		if i > 0 {
			w.line("")
		}
		w.job(j, shared)
	}
	return w.String()
}

// shared are the variables that all jobs have.
func (t *Table) shared() []Variable {
	if len(t.Jobs) == 0 {
		return nil
	}
	first := t.Jobs[0].Env
	if slices.ContainsFunc(t.Jobs, func(j Job) bool { return !slices.Equal(j.Env, first) }) {
		return nil
	}
	return first
}

type writer struct{ strings.Builder }

func (w *writer) line(format string, args ...any) {
	fmt.Fprintf(w, format+"\n", args...)
}

func (w *writer) remarks(title string, remarks []Remark) {
	if len(remarks) == 0 {
		return
	}
	w.line("")
	w.line("# %s", title)
	for _, r := range remarks {
		w.line("#   line %d: %s", r.Line, clean(r.Text, 400))
	}
}

func (w *writer) job(j Job, shared []Variable) {
	w.line("  %s:", scalar(j.Name))
	if j.Description != "" {
		w.line("    description: %s", scalar(dollars(j.Description)))
	}
	w.line("    schedule: %s", quoted(j.Schedule))
	if j.Timezone != "" {
		w.line("    timezone: %s", scalar(j.Timezone))
	}
	if j.Shell != "" {
		w.line("    shell: %s", block(j.Shell, "      "))
	} else {
		w.line("    command:")
		for _, word := range j.Command {
			w.line("      - %s", block(word, "        "))
		}
	}
	if j.Dir != "" {
		w.line("    working_dir: %s", scalar(dollars(j.Dir)))
	}
	if shared == nil {
		w.variables("    ", j.Env)
	}
	if user := clean(j.User, 200); user != "" {
		w.line("    labels: {user: %s}   # cron ran it as this user; the scheduler runs it as its own", quoted(dollars(user)))
	}
}

func (w *writer) variables(indent string, env []Variable) {
	if len(env) == 0 {
		return
	}
	w.line("%senv:", indent)
	for _, v := range env {
		w.line("%s  %s: %s", indent, scalar(v.Name), quoted(dollars(v.Value)))
	}
}

// dollars escapes $, since cron does not interpolate.
func dollars(text string) string { return strings.ReplaceAll(text, "$", "$$") }

var (
	bare     = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_/.+-]*(?: [A-Za-z0-9_/.+-]+)*$`)
	constant = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|true|false|null)$`)
)

// scalar formats a text as a YAML value, unquoted if possible.
func scalar(text string) string {
	if bare.MatchString(text) && !constant.MatchString(text) {
		return text
	}
	return quoted(text)
}

// quoted formats a text in quotes. Go's escapes are those of YAML, too.
func quoted(text string) string {
	if !printable(text) {
		return strconv.Quote(text)
	}
	if !strings.ContainsAny(text, `"\`) {
		return `"` + text + `"`
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// block formats a text of several lines as a block, if possible.
func block(text, indent string) string {
	lines := strings.Split(text, "\n")
	if len(lines) == 1 {
		return scalar(text)
	}
	for i, line := range lines {
		if !printable(line) || i == 0 && (line == "" || line[0] == ' ') || i == len(lines)-1 && strings.TrimSpace(line) == "" {
			return strconv.Quote(text)
		}
	}
	return "|-\n" + indent + strings.Join(lines, "\n"+indent)
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// clean reduces a text to one printable line of at most limit bytes.
func clean(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
