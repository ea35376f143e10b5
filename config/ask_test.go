package config_test

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/config"
)

// shape describes the values that the configuration accepts at a path. It is found by experiment: Load is given wrong
// values, and its errors list what fits. So the generated documents agree with the program, and a new key needs no
// second description.
type shape struct {
	kind    kind
	low     int      // of a number
	high    int      // of a number
	least   string   // of a duration
	zero    bool     // a duration: zero is one, too
	choices []string // of a choice
	item    *shape   // of a list
	orOne   bool     // a list: one item may stand without it
	filled  bool     // a list: it must not be empty
	raw     bool     // a text: variables are not filled in
	value   *shape   // of a map with any keys
	named   bool     // the keys of such a map are names
	keys    map[string]*shape
	needs   bool   // an object that must say what to do
	orText  bool   // an object: a text may stand for it
	later   string // why nothing but the default is taken yet
}

type kind string

const (
	anything  kind = "any YAML"
	text      kind = "text"
	number    kind = "whole number"
	truth     kind = "true or false"
	duration  kind = "duration"
	rate      kind = "rate"
	size      kind = "size"
	decimal   kind = "number"
	choice    kind = "choice"
	name      kind = "name"
	address   kind = "host:port"
	zone      kind = "time zone"
	moment    kind = "time"
	list      kind = "list"
	mapping   kind = "map"
	object    kind = "object"
	nothing   kind = "an empty map"
	reserved  kind = "reserved"
	theOne    kind = "1"
	expressed kind = "expression"
)

const (
	nonsense    = "zz zz"    // a value that is nothing but text
	nonsenseKey = "zzzzzzzz" // a key that nobody has, and a name that anybody may have
)

var (
	wantsNumber = regexp.MustCompile(`is not a whole number; allowed: (-?\d+) to (-?\d+)$`)
	wantsChoice = regexp.MustCompile(`; allowed: (.+)$`)
	wantsLeast  = regexp.MustCompile(`is too short; at least (\w+)$`)
	wantsKeys   = regexp.MustCompile(`unknown key; keys here are (.+)$`)
)

// probe finds the shape of the value at a path, of which "[]" is an item of a list.
func probe(t *testing.T, path ...string) *shape {
	t.Helper()
	whole := strings.Join(path, ".")
	whole = strings.ReplaceAll(whole, ".[]", "[0]")
	said := func(value string) []string { return errorsOf(t, path, value)[whole] }

	scalar, items, entries := said(nonsense), said("["+nonsense+"]"), said("{"+nonsenseKey+": "+nonsense+"}")
	refuses := func(said []string) bool {
		return slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, "must be ") })
	}
	for _, s := range scalar {
		if why, is := strings.CutPrefix(s, "not yet: "); is {
			why, _, _ = strings.Cut(why, ";")
			return &shape{kind: reserved, later: why}
		}
	}
	switch takesScalar, takesList, takesMap := !refuses(scalar), !refuses(items), !refuses(entries); {
	case whole == "version":
		return &shape{kind: theOne}
	case takesScalar && takesList && takesMap:
		return &shape{kind: anything}
	case takesList:
		l := &shape{kind: list, orOne: takesScalar, item: probe(t, append(slices.Clone(path), "[]")...)}
		l.filled = slices.ContainsFunc(said("[]"), func(s string) bool {
			return strings.HasPrefix(s, "is empty; ") || strings.HasPrefix(s, "has no program; ")
		})
		return l
	case takesMap:
		m := probeMap(t, path)
		m.orText = takesScalar
		return m
	case takesScalar:
		return probeScalar(scalar, said)
	}
	t.Fatalf("%s takes nothing: %q, %q, %q", whole, scalar, items, entries)
	return nil
}

// probeMap distinguishes a map with fixed keys, or none, from one with the author's keys.
func probeMap(t *testing.T, path []string) *shape {
	t.Helper()
	below := append(slices.Clone(path), nonsenseKey)
	for _, s := range errorsOf(t, below, nonsense)[strings.ReplaceAll(strings.Join(below, "."), ".[]", "[0]")] {
		if strings.HasPrefix(s, "unknown key; it has no keys") {
			return &shape{kind: nothing}
		}
		m := wantsKeys.FindStringSubmatch(s)
		if m == nil {
			continue
		}
		o := &shape{kind: object, keys: map[string]*shape{}}
		for key := range strings.SplitSeq(m[1], ", ") {
			o.keys[key] = probe(t, append(slices.Clone(path), key)...)
		}
		// Package jobs allows a job without a handler: its pool has one.
		o.needs = slices.ContainsFunc(errorsOf(t, path, "{}")[strings.Join(path, ".")], func(s string) bool {
			return strings.HasPrefix(s, "has nothing to do; ")
		})
		return o
	}
	m := &shape{kind: mapping, value: probe(t, below...)}
	odd := append(slices.Clone(path), "a b")
	m.named = slices.ContainsFunc(errorsOf(t, odd, "{}")[strings.Join(odd, ".")], func(s string) bool {
		return strings.Contains(s, "is not a name for ")
	})
	return m
}

func probeScalar(errorsOf []string, said func(string) []string) *shape {
	for _, s := range errorsOf {
		switch {
		case wantsNumber.MatchString(s):
			m := wantsNumber.FindStringSubmatch(s)
			low, _ := strconv.Atoi(m[1])
			high, _ := strconv.Atoi(m[2])
			return &shape{kind: number, low: low, high: high}
		case strings.Contains(s, "is neither true nor false"):
			return &shape{kind: truth}
		case strings.Contains(s, "is not a duration"):
			d := &shape{kind: duration, zero: len(said("0s")) == 0}
			for _, s := range said("1ns") {
				if m := wantsLeast.FindStringSubmatch(s); m != nil {
					d.least = m[1]
				}
			}
			return d
		case strings.Contains(s, "is not a rate;"):
			return &shape{kind: rate}
		case strings.Contains(s, "is not a size;"):
			return &shape{kind: size}
		case strings.Contains(s, "is not a number of processors;"):
			return &shape{kind: decimal}
		case strings.Contains(s, "is not a time;"):
			return &shape{kind: moment}
		case strings.Contains(s, "unknown time zone"):
			return &shape{kind: zone}
		case strings.Contains(s, "is not an address; write host:port"):
			return &shape{kind: address}
		case strings.Contains(s, "is not a name;"):
			return &shape{kind: name}
		case strings.Contains(s, "5 fields are needed"):
			return &shape{kind: expressed}
		case wantsChoice.MatchString(s):
			c := &shape{kind: choice, choices: strings.Split(wantsChoice.FindStringSubmatch(s)[1], ", ")}
			if len(said(`""`)) == 0 {
				c.choices = append(c.choices, "")
			}
			return c
		}
	}
	return &shape{kind: text, raw: len(said(`"$"`)) == 0}
}

// errorsOf loads a configuration with nothing but a value at a path, and returns the errors of each path.
func errorsOf(t *testing.T, path []string, value string) map[string][]string {
	t.Helper()
	for _, element := range slices.Backward(path) {
		if element == "[]" {
			value = "[" + value + "]"
		} else {
			value = "{" + strconv.Quote(element) + ": " + value + "}"
		}
	}
	if len(path) > 0 && path[0] != "version" {
		value = "{version: 1, " + strings.TrimPrefix(value, "{")
	}
	said := map[string][]string{}
	_, err := config.LoadBytes("lockstep.yaml", []byte(value), config.Options{})
	var all config.Errors
	if err != nil && !errors.As(err, &all) {
		t.Fatalf("%T: %v", err, err)
	}
	for _, e := range all {
		text := e.Problem
		if e.Hint != "" {
			text += "; " + e.Hint
		}
		said[e.Path] = append(said[e.Path], text)
	}
	return said
}

// The shapes of some keys, one of each kind.
func TestAsk(t *testing.T) {
	top := probe(t)
	job := top.keys["jobs"].value
	for _, one := range []struct {
		name string
		got  *shape
		want shape
	}{
		{"replica.workers", top.keys["replica"].keys["workers"], shape{kind: number, low: 1, high: 10000}},
		{"replica.session_ttl", top.keys["replica"].keys["session_ttl"], shape{kind: duration, least: "3s"}},
		{"replica.id", top.keys["replica"].keys["id"], shape{kind: name}},
		{"store.dsn", top.keys["store"].keys["dsn"], shape{kind: text}},
		{"pool.rate", top.keys["pools"].value.keys["rate"], shape{kind: rate}},
		{"pool.burst", top.keys["pools"].value.keys["burst"], shape{kind: number, high: 1_000_000}},
		{"pool.per_key.rate", top.keys["pools"].value.keys["per_key"].keys["rate"], shape{kind: rate}},
		{"pool.per_kind", top.keys["pools"].value.keys["per_kind"].value.keys["burst"], shape{kind: number, high: 1_000_000}},
		{"pool.order", top.keys["pools"].value.keys["order"], shape{kind: choice}},
		{"job.output.keep", job.keys["output"].keys["keep"], shape{kind: size}},
		{"job.limits.cpu", job.keys["limits"].keys["cpu"], shape{kind: decimal}},
		{"job.suspend", job.keys["suspend"], shape{kind: truth}},
		{"job.payload", job.keys["payload"], shape{kind: anything}},
		{"pool.worker", top.keys["pools"].value.keys["worker"], shape{kind: nothing}},
		{"job.schedule", job.keys["schedule"], shape{kind: expressed}},
		{"job.timezone", job.keys["timezone"], shape{kind: zone}},
		{"job.spread", job.keys["spread"], shape{kind: duration, least: "1s", zero: true}},
		{"job.jitter", job.keys["jitter"], shape{kind: duration, least: "1ms", zero: true}},
		{"job.timeout", job.keys["timeout"], shape{kind: duration}},
		{"job.starts_at", job.keys["starts_at"], shape{kind: moment}},
	} {
		if one.got == nil || one.got.kind != one.want.kind || one.got.low != one.want.low || one.got.high != one.want.high || one.got.least != one.want.least || one.got.zero != one.want.zero {
			t.Errorf("%s is %+v, want %+v", one.name, one.got, one.want)
		}
	}
	if s := job.keys["shell"]; s.kind != text || !s.raw || top.keys["store"].keys["dsn"].raw {
		t.Errorf("shell is %+v", s)
	}
	if s := job.keys["command"]; s.kind != list || !s.filled || !s.item.raw || job.keys["pass_env"].filled {
		t.Errorf("command is %+v", s)
	}
	if s := job.keys["catch_up"].keys["policy"]; s.kind != choice || !slices.Equal(s.choices, []string{"none", "latest", "all"}) {
		t.Errorf("catch_up.policy is %+v", s)
	}
	if s := job.keys["env_file"]; s.kind != list || !s.orOne || s.item.kind != text {
		t.Errorf("env_file is %+v", s)
	}
	if s := top.keys["lock"].keys["redis"].keys["addrs"]; s.kind != list || s.orOne || s.item.kind != address {
		t.Errorf("addrs is %+v", s)
	}
	if s := job.keys["env"]; s.kind != mapping || s.value.kind != text || s.named {
		t.Errorf("env is %+v", s)
	}
	if s := job.keys["locks"]; s.kind != list || s.item.kind != object || !s.item.orText || s.item.keys["limit"].high != 10000 || job.keys["retries"].orText {
		t.Errorf("locks is %+v", s)
	}
	kinds := top.keys["pools"].value.keys["kinds"]
	if kinds.kind != mapping || !kinds.named || !kinds.value.needs || kinds.value.keys["http"].kind != object || job.needs {
		t.Errorf("kinds is %+v", kinds)
	}
	if s := top.keys["lock"].keys["driver"]; s.kind != choice || !slices.Contains(s.choices, "zookeeper") {
		t.Errorf("lock.driver is %+v", s)
	}
}
