package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
	"github.com/lockstep-scheduler/lockstep/internal/zone"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// upcoming is the number of due times shown per job.
const upcoming = 3

// summary is the output of validate for a valid configuration.
type summary struct {
	File     string        `json:"file"`
	Store    string        `json:"store"`
	Lock     string        `json:"lock"`
	Listen   string        `json:"listen"`
	Pools    []poolSummary `json:"pools"`
	Jobs     []jobSummary  `json:"jobs"`
	Warnings []string      `json:"warnings"`
}

type poolSummary struct {
	Name       string                    `json:"name"`
	Workers    int                       `json:"workers"`
	MaxRunning int                       `json:"max_running"`
	Rate       jobs.Rate                 `json:"rate,omitzero"`
	Burst      int                       `json:"burst,omitempty"`
	PerKind    map[string]wire.KeyLimits `json:"per_kind,omitempty"`
	PerKey     wire.KeyLimits            `json:"per_key,omitzero"`
	Order      jobs.Order                `json:"order,omitempty"`
	Fair       *wire.Fair                `json:"fair,omitempty"`
	PauseOn    *wire.PauseOn             `json:"pause_on,omitempty"`
	Handler    string                    `json:"handler,omitempty"`
	Kinds      []string                  `json:"kinds,omitempty"`
}

type jobSummary struct {
	Name      string    `json:"name"`
	Schedules []string  `json:"schedules"`
	Timezone  string    `json:"timezone"`
	StartsAt  time.Time `json:"starts_at,omitzero"`
	EndsAt    time.Time `json:"ends_at,omitzero"`
	Spread    string    `json:"spread,omitempty"`
	Jitter    string    `json:"jitter,omitempty"`
	Pool      string    `json:"pool"`

	Calendars *wire.JobCalendars `json:"calendars,omitempty"`

	Suspended bool       `json:"suspended,omitempty"`
	Next      []wire.Due `json:"next"`

	zone *time.Location
}

func newValidateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check a configuration and show when its jobs run next",
		Long: "Check a configuration. If it is valid, show its pools and jobs, with the next due times of each job in its zone.\n" +
			"Else show all errors, each with file:line:column, and exit with 2. No server is contacted.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := unused(cmd, "validate checks a file, and asks no replica; 'scheduler plan FILE --server URL' compares one with what governs there. Remove it", ofServers...); err != nil {
				return err
			}
			if len(args) == 1 {
				if err := unused(cmd, "the file to check is "+args[0]+". Remove one of them", "config"); err != nil {
					return err
				}
				a.configFlag = args[0]
			}
			c, err := a.loadConfig()
			if err != nil {
				return err
			}
			missing, expiry, err := checkAPIServer(c.Server)
			if err != nil {
				return err
			}
			for _, path := range missing {
				fmt.Fprintf(a.stderr, "warning: server: %s is not on this machine\n", path)
			}
			s, err := summarize(c, a.now())
			if err != nil {
				return err
			}
			if expiry != "" {
				fmt.Fprintln(a.stderr, "warning:", expiry)
				s.Warnings = append(s.Warnings, expiry)
			}
			return a.print(s, s.write)
		},
	}
}

func summarize(c *config.Config, now time.Time) (summary, error) {
	s := summary{
		File:     c.Path,
		Store:    c.Store.Driver,
		Lock:     c.Lock.Driver,
		Listen:   c.Server.Listen,
		Pools:    []poolSummary{},
		Jobs:     []jobSummary{},
		Warnings: []string{},
	}
	if c.Store.Driver == config.SQLite {
		s.Store += " " + c.Store.DSN
	}
	switch {
	case c.LockInStore():
		s.Lock = "rows of the store's own database"
	case c.Lock.Driver == config.Redis:
		s.Lock += " " + strings.Join(c.Lock.Redis.Addrs, ",")
	case c.Lock.Driver == config.Quorum:
		s.Lock += " of " + strings.Join(c.Lock.Quorum.Addrs(), ",")
	case c.Lock.Driver == config.ZooKeeper:
		s.Lock += " " + strings.Join(c.Lock.ZooKeeper.Servers, ",")
	case c.Lock.Driver == config.MySQL:
		s.Lock += " (" + c.Lock.MySQL.Mode + ")"
	}
	for _, name := range slices.Sorted(maps.Keys(c.Set.Pools)) {
		p, _ := c.Set.Pool(name)
		pool := poolSummary{
			Name: name, Workers: p.Workers, MaxRunning: p.MaxRunning, Rate: p.Rate, Burst: p.Burst,
			PerKind: wire.PerKind(p.PerKind), PerKey: wire.KeyLimits(p.PerKey), Fair: (*wire.Fair)(p.Fair), Kinds: slices.Sorted(maps.Keys(p.Kinds)),
			PauseOn: wire.NewPauseOn(p.PauseOn),
		}
		if p.Order == jobs.OrderKey {
			pool.Order = p.Order
		}
		if d, ok := unwrap.As[jobs.Described](p.Handler); ok {
			pool.Handler = d.Describe()
		}
		s.Pools = append(s.Pools, pool)
	}
	compiler := c.Set.Compiler()
	for _, name := range slices.Sorted(maps.Keys(c.Set.Jobs)) {
		j, err := summarizeJob(compiler, namespaceOf(c.Set), name, c.Set.Jobs[name], now)
		if err != nil {
			return s, err
		}
		s.Jobs = append(s.Jobs, j)
	}
	for _, w := range c.Warnings {
		s.Warnings = append(s.Warnings, w.Error())
	}
	return s, nil
}

func summarizeJob(compiler *jobs.Compiler, namespace *string, name string, j jobs.Job, now time.Time) (jobSummary, error) {
	j = j.WithDefaults()
	s := jobSummary{Name: name, Schedules: append([]string{}, j.Specs()...), Timezone: j.Timezone, StartsAt: j.StartsAt.UTC(), EndsAt: j.EndsAt.UTC(), Pool: j.Pool, Calendars: wire.NewJobCalendars(j.Calendars), Suspended: j.Suspend}
	if j.Spread > 0 {
		s.Spread = j.Spread.String()
	}
	if j.Jitter > 0 {
		s.Jitter = j.Jitter.String()
	}
	schedule, err := compiler.Compile(name, j)
	if err != nil {
		return s, fmt.Errorf("job %s: %w", name, err)
	}
	zone, err := zone.Load(j.Timezone)
	if err != nil {
		return s, fmt.Errorf("job %s: %w", name, err)
	}
	s.zone, s.Next = zone, wire.DueTimes(j, name, schedule, namespace, zone, now, upcoming)
	return s, nil
}

func (s summary) write(w io.Writer) error {
	fmt.Fprintf(w, "%s is valid: %s, %s.\n\n", s.File, count(len(s.Jobs), "job"), count(len(s.Pools), "pool"))
	fmt.Fprintf(w, "store    %s\nlock     %s\nlisten   %s\n", cellText(s.Store), cellText(s.Lock), cellText(s.Listen))
	if len(s.Pools) > 0 {
		fmt.Fprintln(w)
		err := table(w, "POOL WORKERS MAX-RUNNING RATE PER-KIND PER-KEY ORDER KINDS HANDLER", s.Pools, func(p poolSummary) []string {
			limit, rate := "no limit", "no limit"
			if p.MaxRunning > 0 {
				limit = fmt.Sprint(p.MaxRunning)
			}
			if p.Rate != (jobs.Rate{}) {
				rate = rateText(p.Rate, p.Burst)
			}
			perKey := cmp.Or(perKeyText(jobs.KeyLimits(p.PerKey)), "no limit")
			return []string{p.Name, fmt.Sprint(p.Workers), limit, rate, cmp.Or(perKindText(p.PerKind), "no limit"), perKey, cmp.Or(orderText(p.Order, p.Fair != nil), "none"), strings.Join(p.Kinds, ","), shorten(p.Handler)}
		})
		if err != nil {
			return err
		}
		for _, p := range s.Pools {
			if p.PauseOn != nil {
				fmt.Fprint(w, pausesItself(p.Name, *p.PauseOn))
			}
		}
	}
	if len(s.Jobs) > 0 {
		fmt.Fprintln(w)
		rows := make([][]string, 0, len(s.Jobs))
		for _, j := range s.Jobs {
			name := j.Name
			if j.Suspended {
				name += " (suspended)"
			}
			row := []string{name, strings.Join(j.Schedules, " | "), j.Timezone, "on demand"}
			if len(j.Schedules) > 0 {
				row[3] = "no further due time"
			}
			for i, due := range j.Next {
				if i > 0 {
					rows = append(rows, row)
					row = []string{" ", " ", " ", ""}
				}
				row[3] = dueText(due, j.zone)
				if !due.RunsAt.IsZero() {
					row[3] += ", runs " + runsText(due, j.zone)
				}
			}
			rows = append(rows, row)
		}
		return table(w, "JOB SCHEDULE ZONE NEXT", rows, func(row []string) []string { return row })
	}
	return nil
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func shorten(s string) string {
	if runes := []rune(s); len(runes) > 60 {
		return string(runes[:59]) + "…"
	}
	return s
}
