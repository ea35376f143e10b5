package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/internal/duration"
)

func newWhyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "why JOB [TIME]",
		Short: "Say why a due time of a job ran or did not run, or what may stop it",
		Long: "Say why the due time of a job at TIME ran or did not run: what became of it, who decided it when, and what held it up. Of one that is to come, by\n" +
			"default the next: when it is, and what may stop it. TIME is as in 2026-03-29T02:30:00Z, without an offset UTC, or a duration ago, such as 2h: then\n" +
			"it is the last due time before that. The codes are for programs, and do not change; the sentences may.",
		Example: "  scheduler why nightly-backup\n" +
			"  scheduler why nightly-backup 2026-03-29T02:30:00Z\n" +
			"  scheduler why nightly-backup 8h",
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			y, err := wire.WhyJob{}, error(nil)
			switch {
			case len(args) == 1:
				y, err = c.WhyJob(ctx, args[0], time.Time{})
			default:
				y, err = a.whyAt(ctx, c, args[0], args[1])
			}
			if err != nil {
				return err
			}
			return a.print(y, func(w io.Writer) error { return a.showWhyJob(w, y) })
		}),
	}
}

// whyAt asks about a time, or about the last due time before so long ago.
func (a *app) whyAt(ctx context.Context, c *client.Client, job, text string) (wire.WhyJob, error) {
	switch d, err := duration.Parse(text); {
	case err == nil:
		y, err := c.WhyJob(ctx, job, a.now().Add(-d).UTC())
		if err == nil && y.Trigger == nil && !y.Before.IsZero() {
			return c.WhyJob(ctx, job, y.Before)
		}
		return y, err
	case errors.Is(err, duration.ErrTooLong):
		return wire.WhyJob{}, usagef("TIME: %w; write a time, as in 2026-03-29T00:00:00Z", err)
	}
	at, err := parseTime(text, time.UTC)
	if err != nil {
		return wire.WhyJob{}, usagef("TIME: %w, or as a duration ago, such as 2h", err)
	}
	return c.WhyJob(ctx, job, at)
}

// measuredOf is what was measured of a decision, and of the start that followed.
func measuredOf(t *wire.WhyTrigger) string {
	var parts []string
	for _, m := range []struct{ what, is string }{{"the store took", t.Took}, {"locks took", t.LockTook}, {"clock ahead of the database's by", t.ClockOffset}} {
		if m.is != "" {
			parts = append(parts, m.what+" "+m.is)
		}
	}
	return strings.Join(parts, ", ")
}

func (a *app) showWhyJob(w io.Writer, y wire.WhyJob) error {
	fmt.Fprintln(w, y.Summary+".")
	fmt.Fprintln(w)
	due := a.when(y.At)
	if due != "" && y.Local != "" {
		due += ", " + y.Local
	}
	decided, measured, task := "", "", ""
	if t := y.Trigger; t != nil {
		decided = t.DecidedAt.UTC().Format("2006-01-02 15:04:05.000") + " UTC"
		if t.Late != "" { // else it is not known when it was to start
			decided += ", " + t.Late + " after it was due"
		}
		if t.Replica != "" {
			decided = "by " + t.Replica + " at " + decided
		}
		if t.Config != 0 {
			decided += fmt.Sprintf(", with configuration %d", t.Config)
		}
		measured = measuredOf(t)
		if task = t.TaskID; task != "" {
			task += fmt.Sprintf(", attempts: %d; see 'scheduler tasks why %s'", t.Attempts, t.TaskID)
		}
	}
	definition := ""
	if d := y.Definition; d != nil {
		definition = governedText(*d)
	}
	err := fields(w,
		field{"due at", due},
		field{"decided", decided},
		field{"measured", measured},
		field{"task", task},
		field{"definition", definition},
		field{"before it", a.when(y.Before)},
		field{"after it", a.when(y.After)},
	)
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	return table(w, "CODE WHY", y.Causes, func(c wire.Cause) []string { return []string{string(c.Code), c.Message} })
}

// governedText names a definition, and says when it governed.
func governedText(d wire.Definition) string {
	text := fmt.Sprintf("%s, of configuration %d, since %s UTC", d.Hash, d.Config, utc(d.Since))
	if !d.Until.IsZero() {
		text += " until " + utc(d.Until) + " UTC"
	}
	return text
}
