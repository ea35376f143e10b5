package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/foresight"
)

const (
	planRange  = 24 * time.Hour
	planTimes  = 100 // of a job, with -o json and yaml
	planListed = 3   // of a job, in the table
)

func newPlanCommand(a *app) *cobra.Command {
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "plan NEWFILE",
		Short: "Show what another configuration would change",
		Long: "Compare the configuration with NEWFILE: which jobs and pools it adds, removes and changes, in which keys, and what becomes of the\n" +
			"due times of the next 24 hours. Values that may be secret are not shown: payloads, and of a handler what 'jobs get' does not\n" +
			"show either. ping is compared, too, and what of the other sections needs a restart is named.\n\n" +
			"With --server it is compared with the jobs that govern there, as the replica shows them: keys, without values that may be\n" +
			"secret, and due times. Pools and other sections are not. Without --server no server is contacted.\n\n" +
			"The exit code is 0, with --exit-code 3 if there is a change. If a file is not valid, all its errors are shown, and the exit\n" +
			"code is 2.",
		Example: "  scheduler plan new.yaml\n" +
			"  scheduler plan -c /etc/lockstep.yaml new.yaml --exit-code -o json\n" +
			"  scheduler plan new.yaml --server http://127.0.0.1:8080",
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.serverFlag != "" {
				if err := unused(cmd, "with --server NEWFILE is compared with what governs there. Remove one of them", "config"); err != nil {
					return err
				}
			} else if err := unused(cmd, withServer, ofServers...); err != nil {
				return err
			}
			now, err := config.Load(args[0], config.Options{Environ: a.environ})
			if a.serverFlag != "" {
				if err != nil {
					return err
				}
				p, changed, err := a.planServer(cmd.Context(), a.server(), now)
				if err != nil {
					return err
				}
				if err := a.print(p, p.write); err != nil {
					return err
				}
				if exitCode && changed {
					return exit{code: exitChange}
				}
				return nil
			}
			old, oldErr := a.readConfig()
			if oldErr != nil {
				return oldErr
			}
			if err != nil {
				return err
			}
			p := plan{File: old.Path, NewFile: now.Path, From: a.now().UTC(), To: a.now().Add(planRange).UTC(), Restart: append([]string{}, now.NeedsRestart(old)...)}
			changes, err := foresight.Compare(old.Set, now.Set, p.From, p.To, planTimes)
			if err != nil {
				return err
			}
			p.fill(changes)
			if err := a.print(p, p.write); err != nil {
				return err
			}
			if exitCode && (changes.Any() || len(p.Restart) > 0) {
				return exit{code: exitChange}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 3 if there is a change, with 0 if there is none")
	return cmd
}
