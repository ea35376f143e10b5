package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/config/crontab"
	"github.com/lockstep-scheduler/lockstep/internal/zone"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// maxCrontab bounds the imported file, in bytes.
const maxCrontab = 1 << 20

func newImportCommand(a *app) *cobra.Command {
	var user, system bool
	var timezone string
	cmd := &cobra.Command{
		Use:   "crontab FILE",
		Short: "Convert a crontab, and print the configuration",
		Long: "Convert a crontab, and print the configuration. FILE may be - for standard input. The jobs have the due times\n" +
			"and commands of the lines; comments become descriptions. A line that cannot be converted is left out and named,\n" +
			"with the reason, in a comment and on standard error; the exit code is 1 then. In /etc/crontab and\n" +
			"/etc/cron.d a user name stands before the command.",
		Example: "  crontab -l | scheduler import crontab - > lockstep.yaml\n" +
			"  scheduler import crontab /etc/crontab --timezone Europe/London > jobs.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			if user && system {
				return usagef("--user and --system exclude each other")
			}
			if timezone == "" {
				timezone = a.machineZone()
			}
			if _, err := zone.Load(timezone); err != nil {
				return usagef("--timezone: %w", err)
			}
			text, err := a.readCrontab(args[0])
			if err != nil {
				return err
			}
			table := crontab.Read(text, crontab.Options{
				System:   system || !user && isSystemFile(args[0]),
				Timezone: timezone,
				Source:   args[0],
			})
			if _, err := io.WriteString(a.exact, table.YAML()); err != nil {
				return err
			}
			for _, r := range table.LeftOut {
				fmt.Fprintf(a.stderr, "%s:%d: left out: %s\n", args[0], r.Line, r.Text)
			}
			if n := len(table.LeftOut); n > 0 {
				return fmt.Errorf("%d lines were left out, %d became jobs", n, len(table.Jobs))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&user, "user", false, "lines are schedule and command, as in crontab -l")
	cmd.Flags().BoolVar(&system, "system", false, "lines are schedule, user and command, as in /etc/crontab")
	cmd.Flags().StringVar(&timezone, "timezone", "", "IANA `ZONE` that cron ran in (default this machine's)")
	return group("import", "Convert another scheduler's configuration", cmd)
}

func (a *app) readCrontab(path string) (string, error) {
	from := a.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxCrontab+1))
	if err == nil && len(text) > maxCrontab {
		err = fmt.Errorf("%s is larger than %d KiB", path, maxCrontab>>10)
	}
	return string(text), err
}

// isSystemFile reports whether cron expects a user name before each command in the file.
func isSystemFile(path string) bool {
	whole, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	return whole == "/etc/crontab" || filepath.Dir(whole) == "/etc/cron.d"
}

// machineZone is the IANA zone of this machine, in which cron reads times; UTC if it has no name.
func (a *app) machineZone() string {
	names := []string{}
	if zone, set := a.env("TZ"); set {
		names = append(names, strings.TrimPrefix(zone, ":"))
	}
	if target, err := filepath.EvalSymlinks("/etc/localtime"); err == nil {
		if _, name, found := strings.Cut(target, "zoneinfo/"); found {
			names = append(names, name)
		}
	}
	if data, err := os.ReadFile("/etc/timezone"); err == nil {
		names = append(names, strings.TrimSpace(string(data)))
	}
	for _, name := range names {
		if _, err := zone.Load(name); err == nil && name != "" {
			return name
		}
	}
	return jobs.Job{}.WithDefaults().Timezone
}
