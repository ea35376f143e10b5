package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
)

func newTasksDeadCommand(a *app) *cobra.Command {
	f := wire.DeadLetterFilter{}
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "Show what failed or was lost for good, in groups of the same error",
		Long: "Show the tasks that failed, or were lost, for good and were not retried since, in groups of those that ended in the same way:\n" +
			"with the same kind, reason, exit code and error, but for numbers, ids, addresses and what is in quotes. The group with the latest\n" +
			"end comes first. ERROR is cut to 120 bytes; 'tasks get' shows all of it. 'tasks list --pool POOL --fingerprint FINGERPRINT' lists the tasks of a group.",
		RunE: a.call(func(ctx context.Context, c *client.Client, _ []string) error {
			groups, _, err := collect(everything, func(p wire.Page) (wire.List[wire.DeadLetters], error) {
				f.Page = p
				return c.DeadLetters(ctx, f)
			})
			if err != nil {
				return err
			}
			slices.SortStableFunc(groups, func(x, y wire.DeadLetters) int { return y.Last.Compare(x.Last) })
			return a.print(groups, func(w io.Writer) error {
				return table(w, "POOL KIND JOB FINGERPRINT REASON COUNT FIRST LAST TASK ERROR", groups, func(g wire.DeadLetters) []string {
					return []string{g.Pool, g.Kind, g.Job, g.Fingerprint, string(g.ReasonCode), deadCount(g), a.ago(g.First), a.ago(g.Last), g.TaskID, clip.Text(cmp.Or(g.Error, g.Reason), deadError)}
				})
			})
		}),
	}
	cmd.Flags().StringVar(&f.Pool, "pool", "", "only those of this `POOL`")
	cmd.Flags().StringVar(&f.Fingerprint, "fingerprint", "", "only the group of the pool with this `FINGERPRINT`")
	return cmd
}

const deadError = 120 // bytes of an error in a line

// deadCount shows a number that may be larger.
func deadCount(g wire.DeadLetters) string {
	if g.AtLeast {
		return fmt.Sprint("over ", g.Count)
	}
	return fmt.Sprint(g.Count)
}
