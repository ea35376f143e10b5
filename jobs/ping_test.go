package jobs_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

type monitor struct{}

func (*monitor) Run(context.Context, jobs.Task, io.Writer) error { return nil }

func TestPingIsJudged(t *testing.T) {
	for what, c := range map[string]struct {
		ping jobs.Ping
		want []string
	}{
		"none":       {jobs.Ping{}, nil},
		"by default": {jobs.Ping{Handler: &monitor{}}, nil},
		"each day":   {jobs.Ping{Handler: &monitor{}, Every: 24 * time.Hour}, nil},
		"too often":  {jobs.Ping{Handler: &monitor{}, Every: time.Second - 1}, []string{"ping.every"}},
		"too seldom": {jobs.Ping{Handler: &monitor{}, Every: 24*time.Hour + 1}, []string{"ping.every"}},
		"nobody":     {jobs.Ping{Every: time.Minute}, []string{"ping"}},
		"nil":        {jobs.Ping{Handler: (*monitor)(nil)}, []string{"ping"}},
	} {
		var got []string
		if err := (jobs.Set{Ping: c.ping}).Validate(); err != nil {
			for _, part := range err.(interface{ Unwrap() []error }).Unwrap() {
				if field := (*jobs.FieldError)(nil); errors.As(part, &field) {
					got = append(got, field.Path)
				}
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
	if every := (jobs.Ping{}).Interval(); every != time.Minute {
		t.Error(every)
	}
}
