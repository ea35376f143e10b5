package crontab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// entry is a parsed line.
type entry struct {
	schedule []string // five fields, or one macro
	user     string
	command  string
}

// split parses a line; it does not check the fields.
func split(row string, system bool) (entry, error) {
	// cronie: a minus sign in front keeps the line out of the system's log.
	if len(row) > 1 && row[0] == '-' && (row[1] == '*' || row[1] >= '0' && row[1] <= '9') {
		row = row[1:]
	}
	var e entry
	fields := 5
	if strings.HasPrefix(row, "@") {
		fields = 1
	}
	next := func() (word string) {
		row = strings.TrimLeft(row, " \t")
		end := strings.IndexAny(row+" ", " \t")
		word, row = row[:end], row[end:]
		return word
	}
	for range fields {
		e.schedule = append(e.schedule, next())
	}
	if e.schedule[fields-1] == "" {
		return e, fmt.Errorf("it has %d fields, 5 and a command are needed", len(slices.DeleteFunc(e.schedule, func(s string) bool { return s == "" })))
	}
	if fields == 5 && !strings.ContainsAny(e.schedule[0][:1], "*0123456789") {
		return e, errors.New("it neither sets a variable nor starts with a minute")
	}
	if system {
		if e.user = next(); e.user == "" {
			return e, errors.New("it has no user; files with five fields and a command are read with --user")
		}
	}
	e.command = strings.Trim(row, " \t")
	return e, nil
}

// percent handles % as cron does: the first one without a backslash ends the command and begins its standard input, in
// which further ones are line breaks.
func percent(command string) (script string, input *string) {
	const literal = "\x00" // in place of \%; a line has none of its own
	script, text, found := strings.Cut(strings.ReplaceAll(command, `\%`, literal), "%")
	script = strings.ReplaceAll(script, literal, "%")
	if !found {
		return script, nil
	}
	text = strings.NewReplacer("%", "\n", literal, "%").Replace(text)
	return script, &text
}

// withInput adds standard input to a command as a here-document.
func withInput(script, input string) string {
	end := "END"
	for slices.Contains(strings.Split(input, "\n"), end) {
		end += "_"
	}
	return "{\n" + script + "\n} <<'" + end + "'\n" + strings.TrimSuffix(input, "\n") + "\n" + end
}

// posix are shells that have here-documents like /bin/sh.
var posix = []string{"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "busybox"}
