package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// module is what the program is built from, where a test needs processes.
const module = "github.com/lockstep-scheduler/lockstep/cmd/scheduler"

// plain is a handler without a description.
type plain struct {
	jobs.HandlerFunc
	name string
}

func (p plain) Describe() string { return "" }
func (p plain) Identity() string { return p.name }

func of(name string, run jobs.HandlerFunc) jobs.Handler { return plain{run, name} }

// running is a replica with its store and API, in this process. Its job "waits" ends when release is closed.
type running struct {
	url     string
	file    string // of the store
	release chan struct{}
}

func startReplica(t *testing.T) *running {
	t.Helper()
	r := &running{release: make(chan struct{})}
	attempts := 0
	set := jobs.Set{
		Pools: map[string]jobs.Pool{
			"mail": {Workers: 4, MaxRunning: 20, PerKind: map[string]jobs.KindLimits{"bye": {MaxRunning: 3}}, Handler: of("mail", func(_ context.Context, t jobs.Task, out io.Writer) error {
				fmt.Fprintf(out, "mail %s", t.Payload)
				return nil
			}), Kinds: map[string]jobs.Handler{
				"bye": of("bye", func(context.Context, jobs.Task, io.Writer) error { return nil }),
				"fails": of("fails", func(_ context.Context, t jobs.Task, _ io.Writer) error {
					return jobs.Permanent(fmt.Errorf("user %s not found", t.Payload))
				}),
				"counts": of("counts", func(ctx context.Context, t jobs.Task, out io.Writer) error {
					_ = t.Progress(0.4, "two of five")
					select {
					case <-r.release:
					case <-ctx.Done():
						return context.Cause(ctx)
					}
					fmt.Fprint(out, "counted")
					return t.SetResult(map[string]int{"sent": 3})
				}),
			}},
			"keyed": {PerKey: jobs.KeyLimits{MaxRunning: 1, Rate: jobs.Rate{Count: 1000, Per: time.Second}, Burst: 10}, Order: jobs.OrderKey, Handler: of("keyed", func(_ context.Context, t jobs.Task, out io.Writer) error {
				fmt.Fprintf(out, "%s %s", t.Key, t.Payload)
				return nil
			})},
		},
		Jobs: map[string]jobs.Job{
			"hello": {Description: "Says hello", Priority: -3, Schedule: "0 0 1 1 *", EndsAt: time.Date(2999, 1, 1, 1, 0, 0, 0, time.FixedZone("", 3600)), Labels: map[string]string{"team": "infra"}, Params: map[string]any{"type": []string{"null", "object"}, "properties": map[string]any{"n": map[string]any{"type": "integer"}}}, Handler: of("hello", func(_ context.Context, t jobs.Task, out io.Writer) error {
				fmt.Fprintf(out, "hello \x1b[31mworld%s", t.Payload)
				return nil
			})},
			"fails": {Retries: jobs.Retries{Limit: 1, Backoff: 10 * time.Millisecond}, Handler: of("fails", func(_ context.Context, _ jobs.Task, out io.Writer) error {
				attempts++ // one attempt after the other
				fmt.Fprintf(out, "try %d\n", attempts)
				return &jobs.ExitError{Code: 3, Text: "exit status 3"}
			})},
			"waits": {Handler: of("waits", func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
				select {
				case <-r.release:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})},
		},
	}
	r.file = filepath.Join(t.TempDir(), "test.db")
	st, err := store.Open(t.Context(), "sqlite", r.file, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := scheduler.New(st, nil, set, scheduler.Options{ID: "r1", DrainTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	go func() {
		served <- api.Serve(ctx, l, api.New(api.Backend{Store: st, Replica: s}, api.Options{}), api.ServeOptions{})
	}()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ran, <-served); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(r.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the replica is ready and its configuration holds", func() bool {
		ready, err := c.Ready(t.Context())
		jobs, err2 := c.Jobs(t.Context(), wire.Page{})
		return err == nil && err2 == nil && ready.Ready && len(jobs.Items) == len(set.Jobs)
	})
	return r
}

// scheduler calls the program with args against r.
func (r *running) scheduler(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	a := &app{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs, environ: []string{"LOCKSTEP_SERVER=" + r.url}, now: time.Now}
	code = a.execute(t.Context(), args)
	return code, out.String(), errs.String()
}

// fine calls the program and requires success.
func (r *running) fine(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := r.scheduler(t, "", args...)
	if code != exitFine {
		t.Fatalf("%v: exit code %d\n%s%s", args, code, stdout, stderr)
	}
	return stdout
}

func decodeJSON[T any](t *testing.T, text string) (v T) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// like converts a pattern: … matches anything within a line.
func like(t *testing.T, pattern, text string) {
	t.Helper()
	exact := strings.ReplaceAll(regexp.QuoteMeta(pattern), "…", ".*")
	if ok, _ := regexp.MatchString("^"+exact+"$", text); !ok {
		t.Errorf("got:\n%s\nwant:\n%s", text, pattern)
	}
}
