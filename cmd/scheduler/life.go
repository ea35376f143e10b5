package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// lifeFlags are the flags for how long a task may wait, and what it has in place of its pool's.
type lifeFlags struct {
	at, in           string
	timeout, backoff string
}

func (f *lifeFlags) of(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.at, "expires-at", "", "cancel it if it has not started by `TIME`")
	cmd.Flags().StringVar(&f.in, "expires-in", "", "cancel it if it has not started after `DURATION`, such as 10m")
}

// expiresAt is the zero time without flags.
func (f *lifeFlags) expiresAt(a *app) (at time.Time, err error) {
	switch {
	case f.at != "" && f.in != "":
		return at, usagef("--expires-at and --expires-in say the same: remove one")
	case f.in != "":
		d, err := duration.Parse(f.in)
		if err != nil {
			return at, usagef("--expires-in: %w", err)
		}
		return a.now().Add(d).UTC(), nil
	case f.at != "":
		if at, err = parseTime(f.at, time.UTC); err != nil {
			return at, usagef("--expires-at: %w", err)
		}
	}
	return at, nil
}

// changed is expiresAt for a task that has one: the zero time is for one that expires no more.
func (f *lifeFlags) changed(a *app) (time.Time, error) {
	if f.at == "never" && f.in == "" {
		return time.Time{}, nil
	}
	return f.expiresAt(a)
}

// own sets what a task has in place of its pool's; given reports whether a flag is.
func (f *lifeFlags) own(task *jobs.NewTask, given func(flag string) bool) (err error) {
	if given("max-attempts") && task.MaxAttempts == 0 {
		return usagef("--max-attempts 0: must be 1 to %d", limits.Retries+1)
	}
	for flag, of := range map[string]struct {
		text string
		to   *time.Duration
	}{"timeout": {f.timeout, &task.Timeout}, "backoff": {f.backoff, &task.Backoff}} {
		if !given(flag) {
			continue
		}
		if *of.to, err = duration.Parse(of.text); err != nil {
			return usagef("--%s: %w", flag, err)
		}
		if *of.to == 0 {
			return usagef("--%s 0s: must be 1ms or more", flag)
		}
	}
	return nil
}

// ownText is a duration that a task has in place of its pool's; "" if it has none.
func ownText(d jobs.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
