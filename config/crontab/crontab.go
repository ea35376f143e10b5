// Package crontab converts cron's files to configurations of the scheduler.
//
// It accepts the syntax that cron of Debian, cronie and the BSDs' cron share. A line that they read differently, or
// that the scheduler cannot run as cron does, is left out with a reason. Converted jobs have the same due times and
// commands.
package crontab

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lockstep-scheduler/lockstep/internal/zone"
)

// Options of Read. The zero Options read a user's crontab, in UTC.
type Options struct {
	System   bool   // a user name before each command, as in /etc/crontab and /etc/cron.d
	Timezone string // the zone that cron ran in, IANA name
	Source   string // the file's name in comments
}

// Table is a converted file.
type Table struct {
	Options
	Jobs    []Job
	LeftOut []Remark // lines that are not converted
	Notes   []Remark // differences of converted lines
}

// Remark is a remark on a line.
type Remark struct {
	Line int
	Text string
}

// Job is one line that cron would run.
type Job struct {
	Line        int
	Name        string // unique without regard to case
	Description string // the comment above the line
	Schedule    string
	Timezone    string // "": that of the file
	User        string
	Shell       string   // a line for /bin/sh, or
	Command     []string // a line for another shell
	Env         []Variable
	Dir         string
}

// Variable is a variable of the file that commands get.
type Variable struct{ Name, Value string }

var assignment = regexp.MustCompile(`^("[^"]*"|'[^']*'|[^\s="']+)\s*=\s*(.*)$`)

// Read converts a file of cron. Lines that it cannot convert are in LeftOut.
func Read(text string, o Options) *Table {
	t := &reading{Table: &Table{Options: o}, taken: map[string]bool{}}
	line := 0
	for row := range strings.Lines(text) {
		line++
		t.line(line, strings.TrimRight(row, "\r\n"))
	}
	return t.Table
}

// reading is the state of Read: the Table, and the settings for the lines that follow.
type reading struct {
	*Table
	taken    map[string]bool // names, in small letters
	comments []string        // above the line
	env      []Variable
	shell    string // of SHELL; "" is /bin/sh
	timezone string // of CRON_TZ
	zoneErr  error
	dir      string // of HOME
}

func (t *reading) leaveOut(line int, reason string) {
	t.LeftOut = append(t.LeftOut, Remark{line, reason})
}

func (t *reading) note(line int, text string) { t.Notes = append(t.Notes, Remark{line, text}) }

func (t *reading) line(line int, row string) {
	row = strings.TrimLeft(row, " \t")
	if comment, is := strings.CutPrefix(row, "#"); is {
		t.comment(comment)
		return
	}
	comments := t.comments
	t.comments = nil
	if row == "" {
		return
	}
	if !utf8.ValidString(row) || strings.ContainsRune(row, 0) {
		t.leaveOut(line, "it is not UTF-8 text; save the file as UTF-8")
		return
	}
	if m := assignment.FindStringSubmatch(row); m != nil {
		t.variable(line, unquote(m[1]), unquote(strings.TrimRight(m[2], " \t")))
		return
	}
	t.entry(line, row, comments)
}

func (t *reading) comment(text string) {
	text = strings.Trim(text, "#-=*_ \t")
	if text == "" || strings.HasPrefix(strings.Join(strings.Fields(text), " "), "m h dom mon dow") {
		t.comments = nil // a ruler or a header: comments above it describe the file
		return
	}
	if e, err := split(text, t.System); err == nil && e.command != "" {
		return // a commented-out line is no description
	}
	t.comments = append(t.comments, text)
}

func unquote(text string) string {
	if len(text) >= 2 && (text[0] == '"' || text[0] == '\'') && text[len(text)-1] == text[0] {
		return text[1 : len(text)-1]
	}
	return text
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// variable handles an assignment.
func (t *reading) variable(line int, name, value string) {
	switch name {
	case "SHELL":
		t.shell = value
	case "MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING", "RANDOM_DELAY":
		switch {
		case name == "RANDOM_DELAY":
			t.note(line, "RANDOM_DELAY: jobs start when they are due, without a delay")
		case value != "":
			t.note(line, name+": no mail is sent; output is kept with each task ('scheduler tasks logs'), and failures can be notified of")
		}
		return
	case "CRON_TZ":
		t.timezone = value
		if _, t.zoneErr = zone.Load(value); t.zoneErr != nil {
			t.zoneErr = fmt.Errorf("CRON_TZ in line %d: %w", line, t.zoneErr)
		}
		return
	case "TZ":
		t.note(line, "TZ: commands get it, as from cron; due times do not depend on it")
	case "HOME":
		if strings.HasPrefix(value, "/") {
			t.dir = value
		}
	}
	if !variableName.MatchString(name) || strings.HasPrefix(name, "LOCKSTEP_") || name == "TRACEPARENT" {
		t.leaveOut(line, "the variable "+name+": the scheduler sets it itself, or its name is invalid")
		return
	}
	t.env = slices.DeleteFunc(slices.Clone(t.env), func(v Variable) bool { return v.Name == name })
	t.env = append(t.env, Variable{name, value})
}

// entry handles a line with a command.
func (t *reading) entry(line int, row string, comments []string) {
	e, err := split(row, t.System)
	if err == nil && t.zoneErr != nil {
		err = t.zoneErr
	}
	if err != nil {
		t.leaveOut(line, err.Error())
		return
	}
	schedule, err := translate(e.schedule)
	if err != nil {
		t.leaveOut(line, err.Error())
		return
	}
	j := Job{
		Line: line, Schedule: schedule, Timezone: t.timezone, User: e.user, Env: t.env, Dir: t.dir,
		Description: clean(strings.Join(comments, " "), 500),
	}
	script, input := percent(e.command)
	switch {
	case strings.TrimSpace(script) == "":
		t.leaveOut(line, "it has no command")
		return
	case input != nil && t.shell != "" && !slices.Contains(posix, path.Base(t.shell)):
		t.leaveOut(line, "text after % is standard input, which cannot be given to "+t.shell+" -c here; write it into the command")
		return
	case input != nil:
		script = withInput(script, *input)
	}
	if t.shell == "" || t.shell == "/bin/sh" {
		j.Shell = script
	} else {
		j.Command = []string{t.shell, "-c", script}
	}
	j.Name = t.name(script)
	t.Jobs = append(t.Jobs, j)
}
