package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// bulkFlags select tasks, and say how they are changed.
type bulkFlags struct {
	match        wire.TaskMatch
	state        string
	since, until string
	rate         string
	limit        int
	yes, dryRun  bool
}

// bulkHelp is what the commands have in common.
const bulkHelp = "\n\nWith --pool or --job, and no TASK: all tasks for which the other flags hold, too. Without --yes that is a preview: it says how\n" +
	"many there are, shows the first ones, and changes nothing. With --yes they are changed in batches, each in one transaction, the\n" +
	"latest tasks first. Ctrl-C stops after the batch that is under way; the same command goes on with what is left."

func (f *bulkFlags) add(cmd *cobra.Command, states string) {
	flags := cmd.Flags()
	flags.StringVar(&f.match.Pool, "pool", "", "tasks of this `POOL`")
	flags.StringVar(&f.match.Job, "job", "", "tasks of this `JOB`")
	flags.StringVar(&f.state, "state", "", "only `STATE`: "+states)
	flags.StringVar(&f.match.Kind, "kind", "", "only this `KIND`")
	flags.StringVar(&f.match.Key, "key", "", "only this `KEY`")
	flags.StringVar(&f.match.Tag, "tag", "", "only those with this `TAG`")
	flags.StringVar(&f.since, "since", "", "only what ended at this `TIME` or later, or is that old (1h); of open tasks, what was created then")
	flags.StringVar(&f.until, "until", "", "only what ended before this `TIME`, or is older than that")
	flags.StringVar(&f.rate, "rate", "", "at most this `RATE`, as in 50/s; default: as fast as it goes")
	flags.IntVar(&f.limit, "limit", everything, "stop after `N` tasks; 0: all")
	flags.BoolVar(&f.yes, "yes", false, "do it; without, it is a preview")
	flags.BoolVar(&f.dryRun, "dry-run", false, "a preview, also with --yes")
}

// newBulkCommand adds to a command about one task the form about many. about is what one is called with.
func newBulkCommand(a *app, action wire.BulkAction, cmd *cobra.Command, states string, force func() (bool, error)) *cobra.Command {
	f := &bulkFlags{}
	one := cmd.RunE
	many := a.call(func(ctx context.Context, c *client.Client, _ []string) error {
		forced, err := force()
		if err != nil {
			return err
		}
		return f.run(ctx, a, c, action, forced)
	})
	cmd.Long = cmd.Short + "." + bulkHelp
	f.add(cmd, states)
	if action != wire.BulkCancel {
		cmd.Flags().StringVar(&f.match.Fingerprint, "fingerprint", "", "only the dead letters of the pool with this `FINGERPRINT`; see 'tasks dead'")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return many(cmd, args)
		}
		for _, name := range []string{"pool", "job", "state", "kind", "key", "tag", "since", "until", "rate", "limit", "yes", "dry-run", "fingerprint"} {
			if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
				return usagef("--%s selects tasks, and %s is one: remove one of them", name, args[0])
			}
		}
		return one(cmd, args)
	}
	return cmd
}

func newTasksPurgeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "purge",
		Short: "Delete ended tasks with their attempts and output",
		RunE:  func(*cobra.Command, []string) error { return nil },
	}
	return newBulkCommand(a, wire.BulkPurge, cmd, "succeeded, failed, lost or cancelled; default all of them", noForce)
}

// noForce is of commands without --force.
func noForce() (bool, error) { return false, nil }

// span is a flag that says when, or how long ago.
type span struct {
	flag, text string
	is         *time.Time
}

// moments reads the flags that are given.
func (a *app) moments(flags ...span) (err error) {
	for _, f := range flags {
		if f.text == "" {
			continue
		}
		if *f.is, err = a.moment(f.text, -1); err != nil {
			return usagef("--%s: %w", f.flag, err)
		}
	}
	return nil
}

// run changes all tasks that match, or shows what it would change.
func (f *bulkFlags) run(ctx context.Context, a *app, c *client.Client, action wire.BulkAction, force bool) error {
	b := wire.Bulk{TaskMatch: f.match, Limit: 500, DryRun: f.dryRun || !f.yes, Force: force}
	b.State = jobs.State(f.state)
	err := a.moments(span{"since", f.since, &b.Since}, span{"until", f.until, &b.Until})
	if err != nil {
		return err
	}
	rate := jobs.Rate{}
	if f.rate != "" {
		if rate, err = jobs.ParseRate(f.rate); err != nil {
			return usagef("--rate: %w", err)
		}
	}
	if f.limit < 0 {
		return usagef("--limit %d: must be 0 or more", f.limit)
	}
	if f.match.Pool == "" && f.match.Job == "" && action == wire.BulkPurge {
		return usagef("which tasks? Name those of a --pool or a --job")
	}
	if f.match.Pool == "" && f.match.Job == "" {
		return usagef("which tasks? Name one TASK, or all of a --pool or a --job")
	}
	if wrong, ok := errors.AsType[*jobs.FieldError](b.Check(action)); ok {
		return usagef("--%s: %s", wrong.Path, wrong.Problem)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second one ends the command at once
	all, err := f.batches(ctx, c, action, b, rate)
	if err == nil || all.Matched > 0 {
		if shown := a.print(all, func(w io.Writer) error { return showBulk(w, action, b.DryRun, all) }); err == nil {
			err = shown
		}
	}
	if err != nil && !b.DryRun && all.Done > 0 {
		return fmt.Errorf("stopped: %w\n%s %s; the same command goes on with what is left", err, tasksCount(all.Done), doneWord[action])
	}
	return err
}

// batches sends one batch after the other, and returns what became of all of them.
//
//  1. send a batch, with as many tasks as the rate lets through in a second
//  2. add up what became of it
//  3. after the last batch, or as many tasks as are wanted, return
//  4. wait until the rate lets the next one through
func (f *bulkFlags) batches(ctx context.Context, c *client.Client, action wire.BulkAction, b wire.Bulk, rate jobs.Rate) (all wire.BulkResult, err error) {
	all.Tasks = []wire.BulkTask{}
	per := time.Duration(0) // of one task
	if rate != (jobs.Rate{}) && !b.DryRun {
		per = rate.Per / time.Duration(rate.Count)
		b.Limit = max(1, min(b.Limit, int(time.Second/max(per, 1))))
	}
	most := b.Limit
	for {
		if f.limit != everything {
			b.Limit = min(most, f.limit-all.Done)
		}
		// A batch that was sent is waited for, also after Ctrl-C: else nobody would know whether it was done.
		sent, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		one, err := c.ChangeTasks(sent, action, b)
		cancel()
		if err != nil {
			return all, err
		}
		add(&all, one, b.DryRun)
		b.Cursor = one.Next
		if b.Cursor == "" || f.limit != everything && all.Done >= f.limit {
			return all, nil
		}
		if ctx.Err() != nil {
			return all, context.Cause(ctx)
		}
		select {
		case <-ctx.Done():
			return all, context.Cause(ctx)
		case <-time.After(per * time.Duration(one.Done)):
		}
	}
}

// add adds what became of one batch. Of a preview the first tasks are kept.
func add(all *wire.BulkResult, one wire.BulkResult, preview bool) {
	all.Matched, all.Done = all.Matched+one.Matched, all.Done+one.Done
	for _, s := range one.Skipped {
		for range s.Count {
			all.Skip(s.TaskID, s.Reason)
		}
	}
	if all.Tasks = append(all.Tasks, one.Tasks...); preview && len(all.Tasks) > 10 {
		all.Tasks = all.Tasks[:10]
	}
}

var doneWord = map[wire.BulkAction]string{wire.BulkRetry: "retried", wire.BulkCancel: "cancelled or asked to stop", wire.BulkPurge: "deleted"}

func tasksCount(n int) string {
	if n == 1 {
		return "1 task was"
	}
	return fmt.Sprint(n, " tasks were")
}

func showBulk(w io.Writer, action wire.BulkAction, preview bool, all wire.BulkResult) error {
	if !preview {
		fmt.Fprintln(w, tasksCount(all.Done), doneWord[action])
	} else {
		fmt.Fprintf(w, "%s would be %s; add --yes to do it\n", count(all.Done, "task"), doneWord[action])
	}
	for _, s := range all.Skipped {
		fmt.Fprintf(w, "skipped: %d, such as %s, which %s\n", s.Count, s.TaskID, s.Reason)
	}
	if !preview || len(all.Tasks) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nThe first ones:")
	return table(w, "TASK KIND STATE ERROR", all.Tasks, func(t wire.BulkTask) []string { return []string{t.ID, t.Kind, string(t.State), t.Error} })
}
