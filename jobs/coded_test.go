package jobs

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// coded is a handler whose failures have codes from 1 to 255, as those of commands.
type coded struct{ says }

func (coded) Codes() (low, high, timeout int) { return 1, 255, 124 }

// web is one whose failures have statuses.
type web struct{ says }

func (web) Codes() (low, high, timeout int) { return 100, 599, 504 }

func TestFailureCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 0},
		{&ExitError{Code: 3}, 3},
		{fmt.Errorf("x: %w", &ExitError{Code: 255}), 255},
		{&ExitError{Code: -1, Signal: 9}, 137},
		{&ExitError{Code: -1}, 0},
		{&ExitError{Code: 3, Signal: 9}, 3},
		{RetryAfter(0, &StatusError{Status: 503}), 503},
		{errors.Join(&StatusError{Status: 503}, &ExitError{Code: 3}), 3},
	} {
		if got := FailureCode(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

// Codes are refused that are none, and where they have no effect.
func TestCodesThatAreRetried(t *testing.T) {
	const (
		outOfRange = "is out of range 1–599; write exit codes of commands, 1–255, or statuses of HTTP, 100–599\n"
		none       = "has no effect, as only failures of commands and of requests over HTTP have codes; remove it; a function in Go returns jobs.Permanent(err) for what is not to be retried\n"
		workers    = "has no effect, as failures of workers have no codes; remove it: a worker ends what is not to be retried with \"retry\": false\n"
		unlimited  = "has no effect, as the job is not retried; write a limit above 0 beside it, or remove it\n"
	)
	on := func(codes ...int) Retries { return Retries{Limit: 1, On: codes} }
	job := func(h Handler, r Retries) Set { return Set{Jobs: map[string]Job{"j": {Handler: h, Retries: r}}} }
	pool := func(r Retries, kinds ...Handler) Set {
		p := Pool{Retries: r, Kinds: map[string]Handler{}}
		for i, h := range kinds {
			p.Kinds[fmt.Sprint("k", i)] = h
		}
		return Set{Pools: map[string]Pool{"p": p}}
	}
	of := func(r Retries, kind string) Set {
		s := pool(Retries{}, says("h"), coded{})
		s.Jobs = map[string]Job{"j": {Pool: "p", Kind: kind, Retries: r}}
		return s
	}
	around := func(next Handler) Handler { return HandlerFunc(next.Run) }
	for what, c := range map[string]struct {
		set  Set
		want map[string]string
	}{
		"the least and the most of commands":   {job(coded{}, on(1, 255)), nil},
		"the least and the most of requests":   {job(web{}, on(100, 599)), nil},
		"some of each":                         {job(coded{}, on(503, 255)), nil},
		"none":                                 {job(says("h"), Retries{On: []int{}}), nil},
		"of what is surrounded":                {job(Wrap(coded{}, around), on(1)), nil},
		"out of range":                         {job(coded{}, on(0, -1, 600, 5)), map[string]string{"jobs.j.retries.on[0]": "0 " + outOfRange, "jobs.j.retries.on[1]": "-1 " + outOfRange, "jobs.j.retries.on[2]": "600 " + outOfRange}},
		"twice":                                {job(coded{}, on(5, 6, 5)), map[string]string{"jobs.j.retries.on[2]": "5 is given twice; remove one\n"}},
		"of a function":                        {job(says("h"), on(1)), map[string]string{"jobs.j.retries.on": none}},
		"without a limit":                      {job(coded{}, Retries{On: []int{1}}), map[string]string{"jobs.j.retries.on": unlimited}},
		"with no retries":                      {job(coded{}, Retries{Limit: NoRetries, On: []int{1}}), map[string]string{"jobs.j.retries.on": unlimited}},
		"only statuses of a command":           {job(coded{}, on(256, 503)), map[string]string{"jobs.j.retries.on": "no failure has one of these codes, as they are 1–255 here, and so none would be retried; write others, or limit: 0\n"}},
		"only exit codes of a request":         {job(web{}, on(99)), map[string]string{"jobs.j.retries.on": "no failure has one of these codes, as they are 100–599 here, and so none would be retried; write others, or limit: 0\n"}},
		"of a pool, for one of its kinds":      {pool(on(75), says("h"), Worker{}, coded{}), nil},
		"of a pool without a limit of its own": {pool(Retries{Limit: NoRetries, On: []int{75}}, coded{}), nil}, // a task may have max_attempts
		"of a pool that has another":           {pool(on(503), says("h"), coded{says("c")}, web{says("w")}), nil},
		"of a pool of functions":               {pool(on(75), says("h"), Worker{}), map[string]string{"pools.p.retries.on": none}},
		"of a pool without handlers":           {pool(on(75)), map[string]string{"pools.p.retries.on": none}},
		"of workers":                           {pool(on(75), Worker{}, Worker{}), map[string]string{"pools.p.retries.on": workers}},
		"of a pool, out of range":              {pool(on(600), coded{}), map[string]string{"pools.p.retries.on[0]": "600 " + outOfRange}},
		"of a job by a kind that has them":     {of(on(75), "k1"), nil},
		"of a job by a kind that has none":     {of(on(75), "k0"), map[string]string{"jobs.j.retries.on": none}},
	} {
		want := c.want
		if want == nil {
			want = map[string]string{}
		}
		if diff := cmp.Diff(want, found(t, c.set.Validate())); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", what, diff)
		}
	}
	p := Set{Pools: map[string]Pool{"p": {Handler: coded{}, Retries: on(75)}}}
	if err := p.Validate(); err != nil {
		t.Errorf("the handler of a pool: %v", err)
	}
	if err := (Set{Pools: p.Pools, Jobs: map[string]Job{"j": {Pool: "p", Retries: on(75)}}}).Validate(); err != nil {
		t.Errorf("a job by the handler of its pool: %v", err)
	}
}

// Which codes there are counts in hashes, and their order does not; the definition stays as it was written.
func TestCodesCountInHashes(t *testing.T) {
	hashes := func(on ...int) [3]string {
		r := Retries{Limit: 1, On: on}
		p := Pool{Handler: coded{}, Retries: r}
		return [3]string{Job{Handler: coded{}, Retries: r}.Hash(), p.Hash(), p.HandlerHashes()[""]}
	}
	written := []int{75, 1}
	a, b, c, none := hashes(written...), hashes(1, 75), hashes(1), hashes()
	for i := range a {
		if a[i] != b[i] || a[i] == c[i] || c[i] == none[i] {
			t.Errorf("hashes %s, %s, %s, %s", a[i], b[i], c[i], none[i])
		}
	}
	if !slices.Equal(written, []int{75, 1}) {
		t.Errorf("the definition has become %v", written)
	}
	if empty := hashes([]int{}...); empty != none {
		t.Error("an empty list is not as none")
	}
}
