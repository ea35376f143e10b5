package jobs

import (
	"context"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// changed returns a value of type typ that no definition has by default.
func changed(t *testing.T, typ reflect.Type) reflect.Value {
	t.Helper()
	v := reflect.New(typ).Elem()
	switch {
	case typ == reflect.TypeFor[Handler]():
		v.Set(reflect.ValueOf(says("something else")))
	case typ == reflect.TypeFor[any]():
		v.Set(reflect.ValueOf("changed"))
	case typ == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(monday))
	case typ == reflect.TypeFor[time.Duration]():
		v.SetInt(int64(77 * time.Minute))
	case typ.Kind() == reflect.String:
		v.SetString("changed")
	case typ.Kind() == reflect.Bool:
		v.SetBool(true)
	case typ.Kind() == reflect.Int || typ.Kind() == reflect.Uint8:
		if v.CanInt() {
			v.SetInt(77)
		} else {
			v.SetUint(77)
		}
	case typ.Kind() == reflect.Slice:
		v.Set(reflect.Append(v, changed(t, typ.Elem())))
		if typ.Elem().Kind() == reflect.String { // what two fields have in common may count once
			v.Index(0).SetString("changed in a list")
		}
	case typ.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(typ))
		v.SetMapIndex(changed(t, typ.Key()), changed(t, typ.Elem()))
	case typ.Kind() == reflect.Pointer:
		v.Set(reflect.New(typ.Elem()))
		v.Elem().Set(changed(t, typ.Elem()))
	case typ.Kind() == reflect.Struct:
		v.Field(0).Set(changed(t, typ.Field(0).Type))
	default:
		t.Fatalf("the test does not know how to change a %v", typ)
	}
	return v
}

// everyField calls try with each copy of original in which one field, at any depth, differs; those
// behind a pointer as well, where there is one.
func everyField[T any](t *testing.T, original T, try func(field string, altered T)) {
	t.Helper()
	var walk func(typ reflect.Type, index []int, name string)
	walk = func(typ reflect.Type, index []int, name string) {
		for i := range typ.NumField() {
			f, at := typ.Field(i), append(append([]int{}, index...), i)
			if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]() {
				walk(f.Type, at, name+f.Name+".")
				continue
			}
			if was := reflect.ValueOf(original).FieldByIndex(at); f.Type.Kind() == reflect.Pointer && !was.IsNil() {
				for j := range f.Type.Elem().NumField() {
					altered, pointee := original, reflect.New(f.Type.Elem())
					pointee.Elem().Set(was.Elem())
					pointee.Elem().Field(j).Set(changed(t, pointee.Elem().Field(j).Type()))
					reflect.ValueOf(&altered).Elem().FieldByIndex(at).Set(pointee)
					try(name+f.Name+"."+f.Type.Elem().Field(j).Name, altered)
				}
				continue
			}
			altered := original
			reflect.ValueOf(&altered).Elem().FieldByIndex(at).Set(changed(t, f.Type))
			try(name+f.Name, altered)
		}
	}
	walk(reflect.TypeFor[T](), nil, "")
}

// forPeople are the fields of a job that decide nothing.
var forPeople = map[string]bool{"Description": true, "Labels": true}

func TestEveryFieldOfAJobChangesItsHash(t *testing.T) {
	job := Job{Schedule: "@daily", Handler: says("h")}
	seen := map[string]string{job.Hash(): "nothing"}
	count := 0
	everyField(t, job, func(field string, altered Job) {
		count++
		if other, dup := seen[altered.Hash()]; dup != forPeople[field] || dup && other != "nothing" {
			t.Errorf("a change of %s has the hash of a change of %s", field, other)
		} else if !dup {
			seen[altered.Hash()] = field
		}
		moves := altered.ScheduleHash() != job.ScheduleHash()
		if want := field == "Schedule" || field == "Schedules" || field == "Timezone" || field == "StartsAt" || field == "EndsAt" || field == "Spread" || strings.HasPrefix(field, "Calendars."); moves != want {
			t.Errorf("a change of %s changes the schedule's hash: %v, want %v", field, moves, want)
		}
	})
	if count < 20 {
		t.Errorf("only %d fields were tried", count)
	}
}

func TestEveryFieldOfAPoolChangesItsHash(t *testing.T) {
	pool := Pool{Handler: says("h")}
	seen := map[string]string{pool.Hash(): "nothing"}
	everyField(t, pool, func(field string, altered Pool) {
		if other, dup := seen[altered.Hash()]; dup {
			t.Errorf("a change of %s has the hash of a change of %s", field, other)
		}
		seen[altered.Hash()] = field
	})
	a := Pool{Kinds: map[string]Handler{"x": says("1")}}
	b := Pool{Kinds: map[string]Handler{"x": says("2")}}
	if a.Hash() == b.Hash() {
		t.Error("the handler of a kind does not count")
	}
	if (Pool{Retries: Retries{Limit: NoRetries}}).Hash() == (Pool{}).Hash() {
		t.Error("no retries and the default ones have one hash")
	}
	if (Job{Retries: Retries{Limit: NoRetries}}).Hash() != (Job{}).Hash() {
		t.Error("no retries of a job, which is the default, have another hash")
	}
}

// What a replica goes by that runs a task counts for its kind, and nothing else of the pool.
func TestHandlerHashes(t *testing.T) {
	pool := Pool{Handler: says("h"), Kinds: map[string]Handler{"k": says("k"), "l": says("h")}}
	first := pool.HandlerHashes()
	if len(first) != 3 || first[""] != first["l"] || first["k"] == first["l"] || len(first["k"]) != 32 {
		t.Errorf("by kind: %q", first)
	}
	seen := map[string]string{first[""]: "nothing"}
	everyField(t, pool, func(field string, altered Pool) {
		h := altered.HandlerHashes()[""]
		other, same := seen[h]
		seen[h] = field
		switch counts := strings.HasPrefix(field, "Retries") || field == "Timeout" || field == "OnLost" || field == "Handler" || strings.HasPrefix(field, "Lock") || strings.HasPrefix(field, "Output") || strings.HasPrefix(field, "RunsOn"); {
		case counts && same:
			t.Errorf("a change of %s has the hash of a change of %s", field, other)
		case !counts && h != first[""]:
			t.Errorf("a change of %s counts", field)
		}
	})
	edited := pool
	edited.Kinds = map[string]Handler{"k": says("other"), "l": says("h"), "m": says("m")}
	if next := edited.HandlerHashes(); next["k"] == first["k"] || next["l"] != first["l"] || next[""] != first[""] || next["m"] == "" {
		t.Errorf("after an edit of one kind: %q", next)
	}
	if (Pool{}).HandlerHashes() == nil || len((Pool{}).HandlerHashes()) != 0 {
		t.Error("a pool without handlers says that it has any")
	}
	filled := pool.WithDefaults()
	filled.Kinds["k"] = Wrap(says("k"), func(next Handler) Handler { return HandlerFunc(next.Run) })
	if !maps.Equal(filled.HandlerHashes(), first) {
		t.Error("defaults or middleware count")
	}
}

// No change makes up for another one, and middleware changes nothing.
func TestEveryTwoFieldsChangeTheHash(t *testing.T) {
	notify := Notify{On: []Event{EventLost}, Handler: says("n")}
	around := func(next Handler) Handler { return HandlerFunc(next.Run) }
	retries := Retries{Limit: 3, Backoff: time.Hour, MaxBackoff: 2 * time.Hour} // the one's default depends on the other
	twoFields(t, Job{Schedule: "@daily", Handler: says("h"), Notify: notify, Retries: retries}, forPeople, Job.Hash, func(j Job) Job {
		return Set{Jobs: map[string]Job{"x": j}}.Wrap(around).Jobs["x"]
	})
	twoFields(t, Pool{Handler: says("h"), Kinds: map[string]Handler{"k": says("k")}, Notify: notify, Retries: retries}, nil, Pool.Hash, func(p Pool) Pool {
		return Set{Pools: map[string]Pool{"x": p}}.Wrap(around).Pools["x"]
	})
}

func twoFields[T any](t *testing.T, original T, without map[string]bool, hash func(T) string, wrapped func(T) T) {
	t.Helper()
	seen, count := map[string]string{hash(original): "nothing"}, 0
	note := func(what string, altered T) {
		count++
		h := hash(altered)
		if other, dup := seen[h]; dup && other != what {
			t.Errorf("%T: a change of %s has the hash of a change of %s", original, what, other)
		}
		seen[h] = what
		if hash(wrapped(altered)) != h {
			t.Errorf("%T: middleware counts where %s changed", original, what)
		}
	}
	everyField(t, original, func(one string, altered T) {
		if without[one] {
			return
		}
		note(one, altered)
		everyField(t, altered, func(two string, again T) {
			if one < two && !without[two] && !strings.HasPrefix(two, one+".") { // the change of a pointer is one of what is behind it
				note(one+" and "+two, again)
			}
		})
	})
	if count < 60 {
		t.Errorf("%T: only %d changes were tried", original, count)
	}
}

func TestEqualDefinitionsHaveOneHash(t *testing.T) {
	job := Job{Schedule: "0  8 * * *", Schedules: []string{"@daily"}, Handler: says("h")}
	for what, same := range map[string]Job{
		"with defaults":   job.WithDefaults(),
		"as one list":     {Schedules: []string{"@daily", "0 8 * * *"}, Handler: says("h")},
		"with empty maps": {Schedule: "0 8 * * *", Schedules: []string{"@daily"}, Handler: says("h"), Labels: map[string]string{}, RunsOn: map[string]string{}},
	} {
		if same.Hash() != job.Hash() || same.ScheduleHash() != job.ScheduleHash() {
			t.Errorf("%s it has another hash", what)
		}
	}
	starts := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	one, other := Job{Schedule: "@daily", StartsAt: starts}, Job{Schedule: "@daily", StartsAt: starts.In(time.FixedZone("", 3600))}
	if one.Hash() != other.Hash() || one.ScheduleHash() != other.ScheduleHash() {
		t.Error("the offset in which a time is written counts")
	}
	if pool := (Pool{}); pool.Hash() != pool.WithDefaults().Hash() || pool.Hash() != (Pool{Kinds: map[string]Handler{}}).Hash() {
		t.Error("a pool and the same with its defaults differ")
	}
	labels := map[string]string{}
	for _, k := range []string{"a", "b", "c", "d", "e", "f"} {
		labels[k] = k
	}
	first := Job{RunsOn: labels}.Hash()
	for range 20 {
		if (Job{RunsOn: labels}).Hash() != first {
			t.Fatal("the order of a map counts")
		}
	}
	if len(first) != 32 {
		t.Errorf("%q has not 32 digits", first)
	}
}

// What has no form in JSON has a fingerprint all the same, of its own.
func TestFingerprintsOfAnything(t *testing.T) {
	if one, other := fingerprint(math.Inf(1)), fingerprint(math.Inf(-1)); one == other || len(one) != 32 {
		t.Errorf("%s and %s", one, other)
	}
}

// The definition is the caller's: what is spelled in another way for the hash stays as it was written.
func TestHashesLeaveTheDefinitionAlone(t *testing.T) {
	job := Job{
		Schedules: []string{"@weekly", "0  8 * * *", "@daily", "@daily"}, Handler: says("h"),
		Labels: map[string]string{"team": "infra"}, RunsOn: map[string]string{"disk": "ssd"},
	}
	job.Hash()
	job.ScheduleHash()
	if want := []string{"@weekly", "0  8 * * *", "@daily", "@daily"}; !slices.Equal(job.Schedules, want) {
		t.Errorf("the schedules are %q, not %q", job.Schedules, want)
	}
	if len(job.Labels) != 1 || len(job.RunsOn) != 1 {
		t.Errorf("labels %v, runs on %v", job.Labels, job.RunsOn)
	}
}

// These values are in people's databases: a change makes every replica of the next release see
// edited definitions, and moves jobs to other stripes.
func TestHashesAndStripesStayAsTheyAre(t *testing.T) {
	job := Job{Schedule: "30 2 * * *", Timezone: "Europe/London", Handler: says("exec"), Labels: map[string]string{"team": "infra"}}
	for what, pair := range map[string][2]string{
		"job":      {job.Hash(), "6153375054eafa65a7fa9017a10b07b1"},
		"schedule": {job.ScheduleHash(), "2ae0e6a136026c49d466ad75d7564bff"},
		"pool":     {Pool{Workers: 8, Handler: says("exec")}.Hash(), "13d3513d9c7730c4a5bee59299584460"},
		"nothing":  {Job{}.Hash(), "f55cd83007636753d9e43fac59481891"},
		"notifies": {Job{Notify: Notify{Handler: says("n"), On: []Event{EventLost, EventFailed}}}.Hash(), "7aab9834f316ddef726d600f13944a27"},
		"all":      {Job{Notify: Notify{Handler: says("n")}}.Hash(), "839441a8825478928ed7c693a796fb24"},
		"nobody":   {Job{Notify: Notify{On: []Event{}}}.Hash(), "6b73564e296734633d158933681952e8"},
		"empty":    {Pool{}.Hash(), "a17ce3f45ffa2310f160f28c10256d69"},
		"kinds":    {Pool{Kinds: map[string]Handler{"k": says("k")}}.Hash(), "81852906d28be85d5c86e77ba6105d98"},
		"handler":  {Pool{Handler: says("h")}.HandlerHashes()[""], "673214acf80d95b11287b8a414bc2ad7"},
		"kind":     {Notify{Handler: says("n")}.Kind("job a"), "154e3f29a7097fab"},
		"bounded":  {Job{Schedule: "@daily", StartsAt: monday, EndsAt: monday.Add(day)}.Hash(), "3e862d3b1489052132390724a71245c5"},
		"bounds":   {Job{Schedule: "@daily", StartsAt: monday, EndsAt: monday.Add(day)}.ScheduleHash(), "5352209d273f3bec20a05ba3c7c4e497"},
		"moved":    {Job{Schedule: "@daily", Spread: 10 * time.Minute}.Hash(), "0e7fbb4af212ab08f1780047c925100a"},
		"delayed":  {Job{Schedule: "@daily", Jitter: 30 * time.Second}.Hash(), "e12f2f07342e08a42326253001bc63ff"},
		"moves":    {Job{Schedule: "@daily", Spread: 10 * time.Minute}.ScheduleHash(), "eb7c09b08ec5f85295cbd00783f9a27e"},
		"hashed":   {Job{Schedule: "@daily", Schedules: []string{"H H * * *"}}.ScheduleHash(), "e71f9917a21dae2f240e302d3020cded"},
		"usual":    {Job{Priority: 0, Retries: Retries{On: []int{}}}.Hash(), "f55cd83007636753d9e43fac59481891"},
		"codes":    {Pool{Retries: Retries{On: []int{}}}.Hash(), "a17ce3f45ffa2310f160f28c10256d69"},
		"one slot": {Job{MaxRunning: 1}.Hash(), "f55cd83007636753d9e43fac59481891"},
		"unlocked": {Job{Locks: []Lock{}}.Hash(), "f55cd83007636753d9e43fac59481891"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %s, want %s", what, pair[0], pair[1])
		}
	}
}

// secretive does what it says, with something that it does not say.
type secretive struct {
	says
	secret string
}

func (s secretive) Identity() string { return string(s.says) + s.secret }

func TestASecretCountsAndIsNotShown(t *testing.T) {
	one, other := secretive{"h", "1"}, secretive{"h", "2"}
	for what, pair := range map[string][2]string{
		"a job's handler":       {Job{Handler: one}.Hash(), Job{Handler: other}.Hash()},
		"a job's notifications": {Job{Notify: Notify{Handler: one}}.Hash(), Job{Notify: Notify{Handler: other}}.Hash()},
		"a pool's handler":      {Pool{Handler: one}.Hash(), Pool{Handler: other}.Hash()},
		"a kind's handler":      {Pool{Kinds: map[string]Handler{"k": one}}.Hash(), Pool{Kinds: map[string]Handler{"k": other}}.Hash()},
	} {
		if pair[0] == pair[1] {
			t.Errorf("a change of the secret of %s does not change the hash", what)
		}
	}
}

func sendWelcome(context.Context, Task, welcome) error { return nil }

func sendOther(context.Context, Task, welcome) error { return nil }

func TestFunctionsAreToldApart(t *testing.T) {
	a, b := Job{Handler: Func(sendWelcome)}, Job{Handler: Func(sendOther)}
	if a.Hash() == b.Hash() || a.Hash() != (Job{Handler: Func(sendWelcome)}).Hash() {
		t.Error("the hash does not follow the function")
	}
	const want = "func github.com/lockstep-scheduler/lockstep/jobs.sendWelcome(jobs.welcome)"
	if got := identify(Func(sendWelcome)); got != want {
		t.Errorf("described as %q, want %q", got, want)
	}
}
