package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/nearest"
)

// commands constructs every command of the program.
var commands = []func(*app) *cobra.Command{
	newServeCommand,
	newInitCommand,
	newValidateCommand,
	newNextCommand,
	newSimulateCommand,
	newPlanCommand,
	newSchemaCommand,
	newJobsCommand,
	newTriggersCommand,
	newOrdersCommand,
	newWhyCommand,
	newTasksCommand,
	newPoolsCommand,
	newPauseCommand,
	newResumeCommand,
	newReplicasCommand,
	newReloadCommand,
	newWorkersCommand,
	newLocksCommand,
	newImportCommand,
	newAuditCommand,
	newDoctorCommand,
	newTokenCommand,
	newMigrateCommand,
	newHealthcheckCommand,
	newVersionCommand,
}

// Exit codes of the program.
const (
	exitFine   = 0
	exitFailed = 1
	exitUsage  = 2 // wrong usage or configuration
	exitChange = 3 // plan --exit-code: there are changes
)

const (
	defaultServer = "http://127.0.0.1:8080"
	defaultFile   = "lockstep.yaml"
)

// app is what all commands share: the streams, the environment, and the flags of the root.
type app struct {
	stdin   io.Reader
	stdout  io.Writer // escaped, see visible
	stderr  io.Writer // escaped
	exact   io.Writer // stdout, byte for byte
	environ []string  // of the process, as in os.Environ
	now     func() time.Time

	configFlag string
	serverFlag string
	caFlag     string
	insecure   bool   // allow a token in plain text to another machine
	output     string // table | json | yaml

	opened  *loadedFiles // of the configuration that was read last
	started bool         // a command's own code runs: an error is no longer wrong usage
}

// run executes args and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, environ: os.Environ(), now: time.Now}
	return a.execute(ctx, args)
}

func (a *app) execute(ctx context.Context, args []string) int {
	out, errs := &visible{w: a.stdout}, &visible{w: a.stderr}
	a.exact, a.stdout, a.stderr = a.stdout, out, errs
	defer func() {
		out.flush()
		errs.flush()
		a.stdout, a.stderr = out.w, errs.w
	}()
	root := newRootCommand(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	_, usage := errors.AsType[usageError](err)
	own, coded := errors.AsType[exit](err)
	switch {
	case err == nil:
		return exitFine
	case coded:
		if own.err != nil {
			fmt.Fprintf(a.stderr, "scheduler: %s\n", failure(own.err))
		}
		return own.code
	case usage || !a.started:
		fmt.Fprintf(a.stderr, "scheduler: %v\nSee '%s --help'.\n", err, cmd.CommandPath())
		return exitUsage
	default:
		if bad, ok := errors.AsType[config.Errors](err); ok {
			a.refuse(bad)
			return exitUsage
		}
		fmt.Fprintf(a.stderr, "scheduler: %s\n", failure(err))
		return exitFailed
	}
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "scheduler",
		Short: "Run cron jobs and task pools on several machines, each due time on one of them",
		Long: "Run cron jobs and task pools on several machines, each due time on one of them.\n\n" +
			"Start here:\n" +
			"  scheduler init                 write a commented " + defaultFile + "\n" +
			"  scheduler validate             check it, and show when its jobs run\n" +
			"  scheduler serve                run it; start more of them on the same file",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if !slices.Contains(formats, a.output) {
				return usagef("--output %q: must be one of %s", a.output, strings.Join(formats, ", "))
			}
			return nil
		},
	}
	root.SetVersionTemplate(line(readBuildInfo()) + "\n")
	flags := root.PersistentFlags()
	flags.StringVarP(&a.configFlag, "config", "c", "", "configuration `FILE` (else $LOCKSTEP_CONFIG, else ./"+defaultFile+")")
	flags.StringVar(&a.serverFlag, "server", "", "`URL` of a running replica (else $LOCKSTEP_SERVER, else "+defaultServer+")")
	flags.StringVar(&a.caFlag, "ca-file", "", "`FILE` with the authorities of the replica's certificate (else $LOCKSTEP_CA_FILE, else the system's)")
	flags.BoolVar(&a.insecure, "insecure", false, "allow the token to be sent in plain text to another machine")
	flags.StringVarP(&a.output, "output", "o", "table", "output `FORMAT`: table, json or yaml")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))

	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	for _, construct := range commands {
		root.AddCommand(construct(a))
	}
	a.complete(root)
	root.InitDefaultCompletionCmd()
	a.guard(root)
	return root
}

// guard marks errors before a command's own code runs as wrong usage, in cmd and its subcommands, and replaces cobra's
// messages.
func (a *app) guard(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		a.guard(sub)
	}
	cmd.SetFlagErrorFunc(flagError)
	if inner := cmd.RunE; inner != nil {
		cmd.Args = checkUsage
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			a.started = true
			return inner(cmd, args)
		}
		return
	}
	cmd.Args, cmd.RunE = cobra.ArbitraryArgs, checkCommand
}

// configPath finds the configuration file: the flag, LOCKSTEP_CONFIG, ./lockstep.yaml.
func (a *app) configPath() (string, error) {
	if a.configFlag != "" {
		return a.configFlag, nil
	}
	if path, ok := a.env("LOCKSTEP_CONFIG"); ok && path != "" {
		return path, nil
	}
	if _, err := os.Stat(defaultFile); err != nil {
		return "", usagef("no configuration: there is no ./%s, and neither -c FILE nor LOCKSTEP_CONFIG is given; 'scheduler init' writes one to start with", defaultFile)
	}
	return defaultFile, nil
}

// loadConfig finds and loads the configuration. Warnings go to stderr.
func (a *app) loadConfig() (*config.Config, error) {
	return a.loadWith(config.Options{})
}

// loadWith is loadConfig with these options.
func (a *app) loadWith(o config.Options) (*config.Config, error) {
	c, err := a.readWith(o)
	if err != nil {
		return nil, err
	}
	for _, w := range c.Warnings {
		fmt.Fprintln(a.stderr, "warning:", w)
	}
	return c, nil
}

// readConfig is loadConfig without its warnings.
func (a *app) readConfig() (*config.Config, error) { return a.readWith(config.Options{}) }

// readWith is readConfig with the environment and the files of these options.
func (a *app) readWith(o config.Options) (*config.Config, error) {
	path, err := a.configPath()
	if err != nil {
		return nil, err
	}
	a.opened = &loadedFiles{}
	o.Environ, o.Opened = a.environ, a.opened.note
	return config.Load(path, o)
}

// server is the base URL of the replica.
func (a *app) server() string {
	if a.serverFlag != "" {
		return withScheme(a.serverFlag)
	}
	if url, ok := a.env("LOCKSTEP_SERVER"); ok && url != "" {
		return withScheme(url)
	}
	return defaultServer
}

// env looks up an environment variable; the last of several counts.
func (a *app) env(name string) (string, bool) {
	for _, entry := range slices.Backward(a.environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// exit is the end of a command with an exit code of its own. err is shown; nil: nothing is.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string { return fmt.Sprintf("exit code %d: %v", e.code, e.err) }
func (e exit) Unwrap() error { return e.err }

// usageError is wrong usage of a command, found by its own code.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// usagef is an error with exit code 2.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// didYouMean is a hint at the known name that is most like a wrong one; "" if none is.
func didYouMean(name string, known []string) string {
	if meant := nearest.Key(name, known); meant != "" {
		return fmt.Sprintf("; did you mean %s?", meant)
	}
	return ""
}

// failure is the error's text without a second "scheduler: ".
func failure(err error) string { return strings.TrimPrefix(err.Error(), "scheduler: ") }
