package jobs

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is wrong with jobs that have changed is what Validate says of the whole set.
func TestValidateChanged(t *testing.T) {
	h := says("h")
	before := Set{Pools: map[string]Pool{"p": {Handler: h}}, Jobs: map[string]Job{
		"kept": {Handler: h, Schedule: "@daily"}, "edited": {Handler: h, Schedule: "@daily"}, "gone": {Handler: h},
	}}
	if err := before.Validate(); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		jobs  map[string]Job // edited and added ones
		wrong int
	}{
		"nothing":                            {nil, 0},
		"an edit":                            {map[string]Job{"edited": {Handler: h, Schedule: "@hourly"}}, 0},
		"an added one":                       {map[string]Job{"more": {Pool: "p"}}, 0},
		"a wrong schedule":                   {map[string]Job{"edited": {Handler: h, Schedule: "61 * * * *"}}, 1},
		"two wrong ones":                     {map[string]Job{"more": {Handler: h, Schedule: "61 * * * *"}, "edited": {}}, 2},
		"a name":                             {map[string]Job{"-": {Handler: h}}, 1},
		"capitals":                           {map[string]Job{"Kept": {Handler: h}}, 1},
		"capitals of two added ones":         {map[string]Job{"more": {Handler: h}, "More": {Handler: h}}, 1},
		"capitals of one that is gone":       {map[string]Job{"Gone": {Handler: h}}, 0},
		"no such pool":                       {map[string]Job{"edited": {Pool: "q"}}, 1},
		"a handler like that of a kept one":  {map[string]Job{"edited": {Handler: Named("h", &stateful{})}, "more": {Handler: Named("h", says("other"))}}, 1},
		"handlers that cannot be told apart": {map[string]Job{"edited": {Handler: &stateful{}}, "more": {Handler: &stateful{}}}, 1},
		"a notifier that cannot":             {map[string]Job{"edited": {Handler: h, Notify: Notify{Handler: &stateful{}}}, "more": {Handler: h, Notify: Notify{Handler: &stateful{}}}}, 1},
	} {
		after := Set{Pools: before.Pools, Jobs: maps.Clone(before.Jobs)}
		delete(after.Jobs, "gone")
		var names []string
		for name, job := range c.jobs {
			after.Jobs[name] = job
			names = append(names, name)
		}
		want, got := found(t, after.Validate()), found(t, after.ValidateChanged(before, names))
		if diff := cmp.Diff(want, got); diff != "" || len(got) != c.wrong {
			t.Errorf("%s: %d problems\n%s", what, len(got), diff)
		}
	}
}
