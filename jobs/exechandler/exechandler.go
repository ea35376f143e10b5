// Package exechandler runs a command, or a line for the shell, as a job's handler.
//
// The payload is standard input; standard output and standard error are the attempt's output, each in the order in
// which it was written, and both nearly so. The environment is small: PATH, HOME, LANG and TZ, the variables that the [Command]
// names, and LOCKSTEP_JOB and its siblings. Nothing of a task becomes part of the command line.
//
//	start ──▶ ended by itself; descendants go on, unless they hold the output open:
//	 │        those are killed after 2 s, since the attempt could not end otherwise
//	 │ ctx done
//	 ▼
//	SIGTERM to the process group ──▶ grace period over, or jobs.Stop ──▶ SIGKILL; Run returns when the group is empty
//
// The command leads a process group of its own. The error of one that failed by itself has the last line of its standard error that shows something, 200 bytes of
// it, as in "exit code 2: cannot open orders.db"; if nothing there does, that of standard output. What it writes to both within some ten microseconds may
// change places in the output: the two are a pipe each, since a pipe does not say who wrote.
//
// Where a replica runs the task, LOCKSTEP_PROGRESS_FILE and LOCKSTEP_RESULT_FILE are files that the command may make, in a
// folder of the attempt that no other user can enter and that is removed afterwards. The last whole line of the first is the
// [jobs.Task.Progress]: "0.4 text" or "40% text". The second is the [jobs.Task.SetResult], JSON of at most 64 KiB: it is read
// when the command has ended, whatever its exit code. What is wrong with one of them is said at the end of the output, and changes
// nothing else. Links are not followed.
package exechandler

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/identity"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// DefaultStopGrace is how long a command has between SIGTERM and SIGKILL.
const DefaultStopGrace = 10 * time.Second

// Command says what to run. Either Argv or Shell is required.
type Command struct {
	Argv      []string          // program and arguments, as they are; a program without "/" is sought in PATH
	Shell     string            // a line for /bin/sh -c
	Env       map[string]string // the only way to set LD_PRELOAD and its like
	PassEnv   []string          // names of variables to take from Environ; * ? [a-z] as in file names
	EnvFiles  []string          // files with NAME=value lines, read by New; later ones win, Env wins over all
	Dir       string            // working directory; default: this process's
	StopGrace time.Duration     // default DefaultStopGrace
	Limits    Limits            // of what it takes of the machine
	Environ   []string          // what PassEnv and the standard variables are taken from: os.Environ()
}

// Handler runs a command. It may run any number of tasks at once.
type Handler struct {
	command Command
	argv    []string
	env     []string // of every run
	path    string   // its PATH
}

var _ interface {
	jobs.Handler
	jobs.Described
	jobs.Identified
	jobs.Graceful
	jobs.Coded
} = (*Handler)(nil)

// New returns a handler for c. It returns all problems at once, as [jobs.ErrInvalid]. The program is looked up
// at each run: it may be installed later.
func New(c Command) (*Handler, error) {
	var problems []error
	refuse := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{jobs.ErrInvalid}, args...)...))
	}
	h := &Handler{command: c, argv: slices.Clone(c.Argv)}
	switch {
	case len(c.Argv) > 0 && c.Shell != "":
		refuse("command and shell exclude each other; remove one")
	case c.Shell != "":
		h.argv = []string{"/bin/sh", "-c", c.Shell}
	case len(c.Argv) == 0:
		refuse(`the command is empty; write it as in ["/opt/backup.sh", "--full"]`)
	case strings.TrimSpace(c.Argv[0]) == "":
		refuse("the command has no program; its first item must be one")
	}
	for _, arg := range h.argv {
		if strings.ContainsRune(arg, 0) {
			refuse("%.80q has a NUL character, which no command line can carry", arg)
		}
	}
	if strings.ContainsRune(c.Dir, 0) {
		refuse("working_dir: %.80q has a NUL character", c.Dir)
	}
	if c.StopGrace < 0 || c.StopGrace > duration.Max {
		refuse("stop_grace_period: %v is out of range 0–1 year", c.StopGrace)
	}
	if c.StopGrace == 0 {
		h.command.StopGrace = DefaultStopGrace
	}
	c.Limits.check(refuse)
	env, err := environment(c)
	if err = errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	h.env = env
	h.path = strings.TrimPrefix(entryOf(env, "PATH"), "PATH=")
	return h, nil
}

// Run starts the command and waits for its end. An exit code other than 0 is a [*jobs.ExitError]. If
// descriptors, processes or memory for the start are missing, the error is [abort.ErrNoRoom]. After a stop the
// error wraps the cause of ctx, whatever the exit code was.
func (h *Handler) Run(ctx context.Context, t jobs.Task, out io.Writer) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	program, err := find(h.argv[0], h.path)
	if err != nil {
		return err
	}
	var own []string
	for _, v := range identity.Of(t) {
		own = append(own, v.Env+"="+v.Value)
	}
	return h.run(ctx, program, slices.Concat(h.env, own), own, t, out)
}

// Codes are those of [jobs.Coded]: what a shell has in $?, and 124 after a timeout, as timeout(1).
func (h *Handler) Codes() (low, high, timeout int) { return 1, 255, 124 }

// StopGrace is the grace period of the group between SIGTERM and SIGKILL.
func (h *Handler) StopGrace() time.Duration { return h.command.StopGrace }

// Describe names all settings but the values of variables. Arguments appear in full, as they do in the system's
// list of processes.
func (h *Handler) Describe() string {
	var argv strings.Builder
	enc := json.NewEncoder(&argv)
	enc.SetEscapeHTML(false) // & stays &
	_ = enc.Encode(h.command.Argv)
	return h.spell(strings.TrimSuffix(argv.String(), "\n"), func(string) string { return "…" })
}

// Identity is the description with digests of the values, see [jobs.Identified].
func (h *Handler) Identity() string {
	argv, _ := json.Marshal(h.command.Argv) // strings always have a form
	return h.spell(string(argv), func(name string) string {
		sum := sha256.Sum256([]byte(name + "=" + h.command.Env[name]))
		return fmt.Sprintf("#%x", sum[:4])
	})
}

// Same reports whether the other handler runs the same command with the same environment.
func (h *Handler) Same(other jobs.Handler) bool {
	as, is := other.(*Handler)
	if !is {
		return false
	}
	a, b := &h.command, &as.command
	return slices.Equal(a.Argv, b.Argv) && a.Shell == b.Shell && maps.Equal(a.Env, b.Env) && slices.Equal(a.PassEnv, b.PassEnv) &&
		slices.Equal(a.EnvFiles, b.EnvFiles) && a.Dir == b.Dir && a.StopGrace == b.StopGrace && a.Limits == b.Limits && slices.Equal(h.env, as.env) && h.path == as.path
}

// spell writes the command as one line, with argv in place of its arguments and what value says of each variable.
func (h *Handler) spell(argv string, value func(name string) string) string {
	c := h.command
	var b strings.Builder
	if c.Shell != "" {
		fmt.Fprintf(&b, "shell %q", c.Shell)
	} else {
		fmt.Fprintf(&b, "command %s", argv)
	}
	if c.Dir != "" {
		fmt.Fprintf(&b, " in %q", c.Dir)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		b.WriteString(" " + name + "=" + value(name))
	}
	if len(c.PassEnv) > 0 {
		fmt.Fprintf(&b, " pass_env %q", c.PassEnv)
	}
	if len(c.EnvFiles) > 0 {
		fmt.Fprintf(&b, " env_file %q", c.EnvFiles)
	}
	fmt.Fprintf(&b, " grace %v", c.StopGrace)
	if c.Limits != (Limits{}) { // those without any keep their identity
		fmt.Fprintf(&b, " limits %v", c.Limits)
	}
	return b.String()
}
