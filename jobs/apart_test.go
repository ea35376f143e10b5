package jobs_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
)

// team is told of failures.
type team struct{ name string }

func (t *team) tell(context.Context, jobs.Task, jobs.Notification) error { return nil }

// teller hides what it holds: Func says so.
type teller interface {
	tell(context.Context, jobs.Task, jobs.Notification) error
}

func (t *team) shout(context.Context, jobs.Task, jobs.Notification) error { return io.EOF }

func shout(context.Context, jobs.Task, jobs.Notification) error { return io.EOF }

func (t team) tellByValue(context.Context, jobs.Task, jobs.Notification) error { return nil }

type box[T any] struct{ v T }

func (b *box[T]) tell(context.Context, jobs.Task, T) error { return nil }

// tell makes functions that differ in what they capture, which nobody can see.
//
//go:noinline
func tell(team string) jobs.Handler {
	return jobs.Func(func(context.Context, jobs.Task, jobs.Notification) error { _ = len(team); return nil })
}

//go:noinline
func tellNobody() jobs.Handler {
	return jobs.Func(func(context.Context, jobs.Task, jobs.Notification) error { return nil })
}

// inlined is small enough for the compiler to put it, and the literal's code, wherever it is called.
func inlined(team string) jobs.Handler {
	return jobs.Func(func(context.Context, jobs.Task, jobs.Notification) error { _ = len(team); return nil })
}

// forwarding is middleware as programs write it: it says what the handler within says.
type forwarding struct{ next jobs.Handler }

func (f forwarding) Run(ctx context.Context, t jobs.Task, out io.Writer) error {
	return f.next.Run(ctx, t, out)
}

func (f forwarding) Describe() string { return f.next.(jobs.Described).Describe() }

// mute is one that says nothing.
type mute struct{ next jobs.Handler }

func (m mute) Run(ctx context.Context, t jobs.Task, out io.Writer) error {
	return m.next.Run(ctx, t, out)
}

//go:noinline
func run(team string) jobs.Handler {
	return jobs.HandlerFunc(func(context.Context, jobs.Task, io.Writer) error { _ = len(team); return nil })
}

// mine is a type of functions that a program made before there was one.
type mine func(context.Context, jobs.Task, io.Writer) error

func (f mine) Run(ctx context.Context, t jobs.Task, out io.Writer) error { return f(ctx, t, out) }

func nothingElse(context.Context, jobs.Task, io.Writer) error { return nil }

// slack is a handler with state that says what it does.
type slack struct {
	mu      sync.Mutex
	sent    int
	channel string
}

func (s *slack) Run(context.Context, jobs.Task, io.Writer) error {
	s.mu.Lock()
	s.sent++
	s.mu.Unlock()
	return nil
}
func (s *slack) Describe() string { return "slack " + s.channel }

// bare has state, and says nothing.
type bare struct{ to string }

func (b *bare) Run(context.Context, jobs.Task, io.Writer) error { return nil }

// coded says what it does, and has code beside that.
type coded struct {
	run  func()
	says string
}

func (c coded) Run(context.Context, jobs.Task, io.Writer) error { return nil }
func (c coded) Describe() string                                { return c.says }

func print1() {}
func print2() {}

// plain is a value that says nothing.
type plain struct{ to any }

func (p plain) Run(context.Context, jobs.Task, io.Writer) error { return nil }

// calling is a function that says what it does.
type calling func() string

func (c calling) Run(context.Context, jobs.Task, io.Writer) error { return nil }
func (c calling) Describe() string                                { return c() }

func call(text string) calling { return func() string { return text } }

func command(t *testing.T, argument string) jobs.Handler {
	t.Helper()
	h, err := exechandler.New(exechandler.Command{Argv: []string{"echo"}, Env: map[string]string{"A": argument}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Two handlers that cannot be told apart are refused, in whatever place, and those that are one are not.
func TestHandlersAreToldApart(t *testing.T) {
	red, blue := &team{"red"}, &team{"blue"}
	tellRed, shared := jobs.Func(red.tell), &bare{"red"}
	var log []string
	wrap := func(h jobs.Handler) jobs.Handler { return jobs.Wrap(h, around("a", &log)) }
	const twins, both = "cannot be told from that of jobs.a", `all are named "tell"`
	for what, c := range map[string]struct {
		a, b jobs.Handler
		want string
	}{
		"one function":                                       {jobs.Func(sendWelcome), jobs.Func(sendWelcome), ""},
		"two functions":                                      {jobs.Func(sendWelcome), tell("red"), ""},
		"one handler":                                        {tellRed, tellRed, ""},
		"one literal that captures nothing":                  {tellNobody(), tellNobody(), ""},
		"one literal that captures":                          {tell("red"), tell("blue"), ""},
		"one literal, and the same captured":                 {tell("red"), tell("red"), ""},
		"two literals":                                       {jobs.Func(func(context.Context, jobs.Task, int) error { return nil }), jobs.Func(func(context.Context, jobs.Task, int) error { return io.EOF }), ""},
		"one literal in two places":                          {inlined("red"), inlined("blue"), ""},
		"a literal and a function":                           {tell("red"), jobs.Func(shout), ""},
		"mute, two literals":                                 {mute{tell("red")}, mute{tellNobody()}, ""},
		"mute, a literal and a function":                     {mute{tell("red")}, mute{jobs.Func(shout)}, twins},
		"named alike, two literals":                          {jobs.Named("tell", tell("red")), jobs.Named("tell", tellNobody()), ""},
		"named alike, a literal and a function":              {jobs.Named("tell", tell("red")), jobs.Named("tell", jobs.Func(shout)), both},
		"methods of one":                                     {jobs.Func(red.tell), jobs.Func(red.tell), ""},
		"methods of two":                                     {jobs.Func(red.tell), jobs.Func(blue.tell), twins},
		"methods of one, through an interface":               {jobs.Func(teller(red).tell), jobs.Func(teller(red).tell), twins},
		"methods of two values":                              {jobs.Func(red.tellByValue), jobs.Func(blue.tellByValue), twins},
		"methods of two boxes":                               {jobs.Func((&box[int]{1}).tell), jobs.Func((&box[int]{2}).tell), twins},
		"methods of boxes of two types":                      {jobs.Func((&box[int]{}).tell), jobs.Func((&box[string]{}).tell), ""},
		"forwarding, one function":                           {forwarding{jobs.Func(red.tell)}, forwarding{jobs.Func(red.tell)}, ""},
		"forwarding, two closures":                           {forwarding{tell("red")}, forwarding{tell("blue")}, ""},
		"forwarding by pointer, two closures":                {&forwarding{tell("red")}, &forwarding{tell("blue")}, ""},
		"forwarding twice, two closures":                     {forwarding{forwarding{tell("red")}}, forwarding{forwarding{tell("blue")}}, ""},
		"forwarding around nothing else":                     {forwarding{tell("red")}, tell("red"), ""},
		"forwarding, a literal and a function":               {forwarding{tell("red")}, forwarding{jobs.Func(shout)}, ""},
		"forwarding around a function":                       {forwarding{jobs.Func(shout)}, jobs.Func(shout), twins},
		"forwarding, described":                              {forwarding{&slack{channel: "a"}}, forwarding{&slack{channel: "a"}}, ""},
		"mute, one function":                                 {mute{jobs.Func(sendWelcome)}, mute{jobs.Func(sendWelcome)}, ""},
		"mute, two functions":                                {mute{jobs.Func(sendWelcome)}, mute{jobs.Func(sendParcel)}, twins},
		"mute, one command":                                  {mute{command(t, "x")}, mute{command(t, "x")}, ""},
		"mute, two commands":                                 {mute{command(t, "x")}, mute{command(t, "y")}, twins},
		"mute by pointer":                                    {&mute{jobs.Func(sendWelcome)}, &mute{jobs.Func(sendParcel)}, twins},
		"functions that are handlers":                        {run("red"), run("blue"), ""},
		"functions of a type that says nothing":              {mine(nothing), mine(nothingElse), twins},
		"the same, the first a literal":                      {mine(func(context.Context, jobs.Task, io.Writer) error { return nil }), mine(nothing), twins},
		"the same, the second a literal":                     {mine(nothing), mine(func(context.Context, jobs.Task, io.Writer) error { return nil }), twins},
		"described alike":                                    {&slack{channel: "a", sent: 1}, &slack{channel: "a"}, ""},
		"described otherwise":                                {&slack{channel: "a"}, &slack{channel: "b"}, ""},
		"bare, one":                                          {shared, shared, ""},
		"bare, two":                                          {&bare{"red"}, &bare{"blue"}, twins},
		"bare, two that are equal now":                       {&bare{"red"}, &bare{"red"}, twins},
		"named alike, two functions of one type":             {jobs.Named("tell", jobs.Func(sendParcel)), jobs.Named("tell", jobs.Func(weigh)), both},
		"named alike, functions of a type that says nothing": {jobs.Named("tell", mine(nothing)), jobs.Named("tell", mine(nothingElse)), both},
		"named alike, one literal in two places":             {jobs.Named("tell", inlined("red")), jobs.Named("tell", inlined("red")), ""},
		"named alike, two methods":                           {jobs.Named("tell", jobs.Func(red.tell)), jobs.Named("tell", jobs.Func(red.shout)), both},
		"no functions":                                       {mute{jobs.HandlerFunc(nil)}, mute{jobs.HandlerFunc(nil)}, ""},
		"one command twice":                                  {command(t, "x"), command(t, "x"), ""},
		"wrapped, one function":                              {wrap(jobs.Func(red.tell)), wrap(jobs.Func(red.tell)), ""},
		"wrapped and not":                                    {wrap(jobs.Func(red.tell)), jobs.Func(red.tell), ""},
		"wrapped, two closures":                              {wrap(tell("red")), wrap(tell("blue")), ""},
		"wrapped, two commands":                              {wrap(command(t, "x")), wrap(command(t, "y")), ""},
		"named, two closures":                                {jobs.Named("tell red", tell("red")), jobs.Named("tell blue", tell("blue")), ""},
		"named alike, closures of one literal":               {jobs.Named("tell", tell("red")), jobs.Named("tell", tell("red")), ""},
		"named alike, methods of two":                        {jobs.Named("tell", jobs.Func(red.tell)), jobs.Named("tell", jobs.Func(blue.tell)), both},
		"named alike, two functions":                         {jobs.Named("tell", jobs.Func(sendWelcome)), jobs.Named("tell", jobs.Func(sendParcel)), both},
		"named alike, and wrapped":                           {jobs.Named("tell", wrap(jobs.Func(sendWelcome))), wrap(jobs.Named("tell", jobs.Func(sendParcel))), both},
		"named alike, two commands":                          {jobs.Named("tell", command(t, "x")), jobs.Named("tell", command(t, "y")), ""},
		"named alike, methods of two values":                 {jobs.Named("tell", jobs.Func(red.tellByValue)), jobs.Named("tell", jobs.Func(blue.tellByValue)), ""},
		"methods of one value, twice":                        {jobs.Func(red.tellByValue), jobs.Func(red.tellByValue), twins},
		"mute, one named":                                    {mute{jobs.Named("a", tell("red"))}, mute{tell("red")}, twins},
		"mute, one command and a function":                   {mute{command(t, "x")}, mute{jobs.Func(shout)}, twins},
		"mute, of two types":                                 {mute{&slack{channel: "a"}}, mute{&bare{"red"}}, twins},
		"mute, described alike":                              {mute{&slack{channel: "a"}}, mute{&slack{channel: "a"}}, ""},
		"mute, described otherwise":                          {mute{&slack{channel: "a"}}, mute{&slack{channel: "b"}}, twins},
		"mute, functions described alike":                    {mute{call("a")}, mute{call("a")}, ""},
		"mute, functions described otherwise":                {mute{call("a")}, mute{call("b")}, twins},
		"mute, around nothing":                               {mute{logged{}}, mute{logged{}}, ""},
		"mute, around nothing and something":                 {mute{logged{}}, mute{&bare{"red"}}, twins},
		"mute, without a pointer":                            {mute{(*slack)(nil)}, mute{(*slack)(nil)}, ""},
		"mute, with and without a pointer":                   {mute{(*slack)(nil)}, mute{&slack{}}, twins},
		"described, with one code":                           {coded{print1, "a"}, coded{print1, "a"}, ""},
		"described, with two codes":                          {coded{print1, "a"}, coded{print2, "a"}, twins},
		"described, without code":                            {coded{nil, "a"}, coded{nil, "a"}, ""},
		"described, with and without code":                   {coded{nil, "a"}, coded{print2, "a"}, twins},
		"described by pointer, with one code":                {&coded{print1, "a"}, &coded{print1, "a"}, ""},
		"described by pointer, with two codes":               {&coded{print1, "a"}, &coded{print2, "a"}, twins},
		"plain, equal":                                       {plain{"red"}, plain{"red"}, ""},
		"plain, different":                                   {plain{"red"}, plain{"blue"}, twins},
		"plain, of two types":                                {plain{"red"}, plain{1}, twins},
		"plain, with lists":                                  {plain{[]string{"red"}}, plain{[]string{"red"}}, twins},
		"forwarding around a function of a handler":          {forwarding{run("red")}, run("red"), ""},
		"mute, named otherwise":                              {mute{jobs.Named("a", tell("red"))}, mute{jobs.Named("b", tell("blue"))}, twins},
	} {
		t.Run(what, func(t *testing.T) {
			for where, set := range map[string]jobs.Set{
				"jobs.b":         {Jobs: map[string]jobs.Job{"a": {Handler: c.a}, "b": {Handler: c.b}}},
				"jobs.b.notify":  {Jobs: map[string]jobs.Job{"a": {Handler: c.a}, "b": {Pool: "p", Notify: jobs.Notify{Handler: c.b}}}, Pools: map[string]jobs.Pool{"p": {Handler: command(t, "z")}}},
				"pools.p":        {Jobs: map[string]jobs.Job{"a": {Handler: c.b}}, Pools: map[string]jobs.Pool{"p": {Handler: c.a}}},
				"pools.p.kinds":  {Jobs: map[string]jobs.Job{"a": {Handler: c.b}}, Pools: map[string]jobs.Pool{"p": {Kinds: map[string]jobs.Handler{"k": c.a}}}},
				"pools.p.notify": {Jobs: map[string]jobs.Job{"a": {Handler: c.b}}, Pools: map[string]jobs.Pool{"p": {Notify: jobs.Notify{Handler: c.a}}}},
			} {
				err := set.Validate()
				if (err == nil) != (c.want == "") {
					t.Errorf("%s: %v", where, err)
				}
				if where == "jobs.b" && !strings.Contains(fmt.Sprint(err), c.want) {
					t.Errorf("%v, want something with %q", err, c.want)
				}
				if err != nil && strings.Contains(where, "notify") && !strings.Contains(err.Error(), "notify") {
					t.Errorf("%s: %v", where, err)
				}
			}
		})
	}
}

func sendParcel(context.Context, jobs.Task, parcel) error { return nil }

func weigh(context.Context, jobs.Task, parcel) error { return io.EOF }

// The message says which, what they are taken for, and what to do, once for however many.
func TestHandlersThatCannotBeToldApartAreNamed(t *testing.T) {
	set := jobs.Set{Jobs: map[string]jobs.Job{}}
	for i := range 20 {
		set.Jobs[string(rune('a'+i))] = jobs.Job{Handler: jobs.Func((&team{}).tell)}
		want := "jobs.b: has a handler that cannot be told from that of jobs.a: all are func github.com/lockstep-scheduler/lockstep/jobs_test.(*team).tell-fm(jobs.Notification), and may do different things; " +
			"use one handler for all, or say what each does, as in jobs.Named(\"send mail\", handler), and surround handlers with jobs.Wrap alone"
		switch i {
		case 0:
			want = "<nil>"
		case 2:
			want = strings.Replace(want, "jobs.a:", "jobs.a, jobs.c:", 1)
		case 19:
			want = strings.Replace(want, "jobs.a:", "jobs.a, jobs.c, jobs.d, jobs.e, jobs.f, jobs.g, jobs.h, jobs.i, jobs.j, jobs.k and 9 more:", 1)
		case 1:
		default:
			continue
		}
		if got := fmt.Sprint(set.Validate()); got != want {
			t.Errorf("got\n%v\nwant\n%s", got, want)
		}
	}
}

// A handler that works is not read: others write its state meanwhile. The race detector judges.
func TestHandlersAreComparedWhileTheyWork(t *testing.T) {
	one, other := &slack{channel: "a"}, &slack{channel: "a"}
	stop := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = one.Run(t.Context(), jobs.Task{}, &bytes.Buffer{})
			}
		}
	})
	for range 100 {
		if err := (jobs.Set{Jobs: map[string]jobs.Job{"a": {Handler: one}, "b": {Handler: other}}}).Validate(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	working.Wait()
}

func TestNamesOfHandlersAreNotEmpty(t *testing.T) {
	err := jobs.Set{Jobs: map[string]jobs.Job{"a": {Handler: jobs.Wrap(jobs.Named("", tell("red")))}}}.Validate()
	if err == nil || !strings.Contains(err.Error(), "jobs.a: has a handler with an empty name") {
		t.Error(err)
	}
}

// What stands in several places is one problem of each, said of where it stands.
func TestNamesOfHandlersAreJudgedWhereTheyStand(t *testing.T) {
	empty, one, other := jobs.Named("", jobs.Func(sendWelcome)), jobs.Named("tell", jobs.Func(sendWelcome)), jobs.Named("tell", jobs.Func(shout))
	const name = ` has a handler with an empty name; say what it does, as in jobs.Named("send mail", handler)`
	const alike = `, and all are named "tell"; give each a name of its own`
	for want, set := range map[string]jobs.Set{
		"jobs.a:" + name + "\njobs.b:" + name: {Jobs: map[string]jobs.Job{"a": {Handler: empty}, "b": {Handler: jobs.Named("", jobs.Func(shout))}}},
		"pools.p.kinds.k:" + name:             {Pools: map[string]jobs.Pool{"p": {Kinds: map[string]jobs.Handler{"k": empty}}}},
		"jobs.a: has a handler that is a nil *jobs_test.bare; give it one that is not, or remove it": { // and is like no other
			Jobs: map[string]jobs.Job{"a": {Handler: (*bare)(nil)}, "b": {Handler: &bare{"red"}}},
		},
		"jobs.b: has another handler than jobs.a" + alike: {
			Jobs: map[string]jobs.Job{"a": {Handler: one}, "b": {Handler: other}, "c": {Handler: one}},
		},
		"jobs.b: has another handler than jobs.a, pools.p.notify" + alike: {
			Jobs:  map[string]jobs.Job{"a": {Handler: one}, "b": {Handler: other}},
			Pools: map[string]jobs.Pool{"p": {Notify: jobs.Notify{Handler: jobs.Named("tell", jobs.Func(sendParcel))}}},
		},
	} {
		if got := fmt.Sprint(set.Validate()); got != want {
			t.Errorf("got\n%v\nwant\n%s", got, want)
		}
	}
}

func TestNamedCountsWhatItNames(t *testing.T) {
	x, y := jobs.Job{Handler: jobs.Named("tell", command(t, "x"))}, jobs.Job{Handler: jobs.Named("tell", command(t, "y"))}
	if x.Hash() == y.Hash() {
		t.Error("a change of a command within a name does not change the hash")
	}
	red := jobs.Job{Handler: jobs.Named("tell red", tell("red"))}
	if red.Hash() == (jobs.Job{Handler: jobs.Named("tell blue", tell("blue"))}).Hash() || red.Hash() != (jobs.Job{Handler: jobs.Named("tell red", jobs.Func(sendWelcome))}).Hash() {
		t.Error("the hash does not follow the name")
	}
	if got := described(jobs.Named("welcome", jobs.Func(sendWelcome))); got != "welcome: func github.com/lockstep-scheduler/lockstep/jobs_test.sendWelcome(jobs_test.Welcome)" {
		t.Errorf("described as %q", got)
	}
	if got := described(jobs.Named("mine", &bare{})); got != "mine" {
		t.Errorf("described as %q", got)
	}
}
