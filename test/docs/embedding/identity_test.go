package embedding

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/schedulertest"
)

// logged is middleware that writes a line after each attempt.
func logged(log *slog.Logger) func(jobs.Handler) jobs.Handler {
	return func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, t jobs.Task, out io.Writer) error {
			began := time.Now()
			err := next.Run(ctx, t, out)
			log.InfoContext(ctx, "attempt", "pool", t.Pool, "kind", t.Kind, "job", t.Job, "task", t.ID, "attempt", t.Attempt, "took", time.Since(began), "error", err)
			return err
		})
	}
}

// spanKey is what a trace puts into the context.
type spanKey struct{}

// traced is middleware that gives the handler something in its context.
func traced(next jobs.Handler) jobs.Handler {
	return jobs.HandlerFunc(func(ctx context.Context, t jobs.Task, out io.Writer) error {
		return next.Run(context.WithValue(ctx, spanKey{}, t.ID), t, out)
	})
}

// chat is where teams are told of what failed.
type chat struct{ said []string }

func (c *chat) post(_ context.Context, team, text string) error {
	c.said = append(c.said, team+": "+text)
	return nil
}

func (c *chat) tell(team string) jobs.Handler {
	return jobs.Named("tell "+team, jobs.Func(func(ctx context.Context, t jobs.Task, n jobs.Notification) error {
		return c.post(ctx, team, n.Text)
	}))
}

// room is a chat's of one team.
type room struct {
	c    *chat
	team string
}

func (r *room) tell(ctx context.Context, _ jobs.Task, n jobs.Notification) error {
	return r.c.post(ctx, r.team, n.Text)
}

// forwarding is middleware of the kind that the page advises against.
type forwarding struct{ jobs.Handler }

func (f forwarding) Describe() string { return f.Handler.(jobs.Described).Describe() }

// Each team gets the notifications of its own jobs, also through middleware.
func TestNotificationsPerTeam(t *testing.T) {
	c, spans, lines := &chat{}, 0, bytes.Buffer{}
	log := slog.New(slog.NewTextHandler(&lines, nil))
	fails := func(ctx context.Context, t jobs.Task, _ struct{}) error {
		if ctx.Value(spanKey{}) == t.ID {
			spans++
		}
		return errors.New("disk full")
	}
	work := func(tell func(team string) jobs.Handler) jobs.Set {
		set := jobs.Set{Jobs: map[string]jobs.Job{}}
		for job, team := range map[string]string{"backup": "storage", "invoices": "sales", "rotate": "storage"} {
			set.Jobs[job] = jobs.Job{Handler: jobs.Func(fails), Notify: jobs.Notify{Handler: tell(team)}}
		}
		return set
	}
	bench := func(work jobs.Set) *schedulertest.Bench {
		work = work.Wrap(logged(log), traced) // all handlers of a set; jobs.Wrap is for one
		return schedulertest.New(t, work, schedulertest.Options{})
	}
	literal := func(team string) jobs.Handler {
		return forwarding{jobs.Func(func(ctx context.Context, _ jobs.Task, n jobs.Notification) error { return c.post(ctx, team, n.Text) })}
	}
	for _, tell := range []func(team string) jobs.Handler{c.tell, c.tell, literal} { // the order of maps decides much
		b := bench(work(tell))
		for _, job := range []string{"backup", "invoices", "rotate"} {
			b.Fire(job)
		}
		b.Drain()
		slices.Sort(c.said)
		got := strings.Join(c.said, "\n")
		for _, want := range []string{"sales: job invoices failed", "storage: job backup failed", "storage: job rotate failed"} {
			if strings.Count(got, want) != 1 || len(c.said) != 3 {
				t.Errorf("told was\n%s\nwant one with %q", got, want)
			}
		}
		c.said = nil
	}
	if n := strings.Count(lines.String(), "job=backup"); spans != 9 || n != 3 || !strings.Contains(lines.String(), `error="disk full"`) {
		t.Errorf("%d spans, and the log\n%s", spans, &lines)
	}
	err := work(func(team string) jobs.Handler {
		return jobs.Func((&room{c, team}).tell)
	}).Validate()
	if err == nil || strings.Count(err.Error(), "jobs.Named(") != 1 {
		t.Errorf("methods that nobody can tell apart: %v", err)
	}
}
