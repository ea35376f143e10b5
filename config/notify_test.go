package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// notified is a handler of notifications, and its events.
func notified(n jobs.Notify) string {
	if n.Handler == nil {
		return "nobody"
	}
	var on []string
	for _, e := range []jobs.Event{jobs.EventFailed, jobs.EventMissed, jobs.EventLost, jobs.EventRecovered, jobs.EventStarted, jobs.EventSucceeded} {
		if n.Wants(e) {
			on = append(on, string(e))
		}
	}
	return strings.Join(on, " ") + ": " + n.Handler.(jobs.Described).Describe()
}

func TestNotify(t *testing.T) {
	c := load(t, `
defaults:
  notify: {on: [failed, lost], webhook: "http://hook.internal/${NAME}"}
pools:
  notifications: {workers: 2, retries: {backoff: 3s}}
  p: {command: [cat], notify: {command: [cat, -], env: {A: b}}}
  q: {command: [cat]}
jobs:
  as-defaults: {command: [echo]}
  other-events: {command: [echo], notify: {on: [recovered]}}
  starts-and-ends: {command: [echo], notify: {on: [started, succeeded]}}
  other-way: {command: [echo], notify: {shell: "cat >&2"}}
  a-request: {command: [echo], notify: {http: {url: "http://other.internal/", headers: {A: b}}}}
  nobody: {command: [echo], notify: {}}
  nothing: {command: [echo], notify: {on: []}}
  silence: {command: [echo], notify: }
`)
	const hook = "POST http://hook.internal/… expecting 2xx within 10s"
	got := map[string]string{}
	for name, job := range c.Set.Jobs {
		got[name] = notified(job.Notify)
	}
	for name, pool := range c.Set.Pools {
		got["pool "+name] = notified(pool.Notify)
	}
	want := map[string]string{
		"as-defaults":        "failed lost: " + hook,
		"other-events":       "recovered: " + hook,
		"starts-and-ends":    "started succeeded: " + hook,
		"other-way":          `failed lost: shell "cat >&2" grace 10s`,
		"a-request":          "failed lost: POST http://other.internal/ expecting 2xx within 30s with A",
		"nobody":             "nobody",
		"nothing":            ": " + hook,
		"silence":            "nobody",
		"pool p":             `failed missed lost recovered: command ["cat","-"] A=… grace 10s`,
		"pool q":             "nobody",
		"pool notifications": "nobody",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	pool := c.Set.WithDefaults().Pools[naming.NotificationsPool]
	if pool.Workers != 2 || pool.Retries.Limit != 20 {
		t.Errorf("%+v, %+v", pool, pool.Retries)
	}
	if kinds := len(c.Set.Notifiers()); kinds != 7 { // six jobs and a pool
		t.Errorf("%d kinds", kinds)
	}
}

// Events without a handler are no error in the defaults, for jobs with a handler.
func TestNotifyOnByDefault(t *testing.T) {
	c := load(t, `
defaults: {notify: {on: [lost]}}
jobs:
  a: {command: [echo], notify: {webhook: "http://hook.internal/"}}
  b: {command: [echo]}
`)
	a, b := notified(c.Set.Jobs["a"].Notify), notified(c.Set.Jobs["b"].Notify)
	if !strings.HasPrefix(a, "lost: POST http://hook.internal/") || b != "nobody" {
		t.Errorf("a: %s; b: %s", a, b)
	}
}

// A template is a part of the handler beside it, and replaces that of the defaults; it is inherited with its handler.
func TestNotifyTemplates(t *testing.T) {
	c := load(t, `
defaults:
  notify: {webhook: "http://hook.internal/", template: {text: "{{.text}}", n: [1, true]}}
jobs:
  as-defaults: {command: [echo]}
  other-events: {command: [echo], notify: {on: [lost]}}
  other-template: {command: [echo], notify: {template: {text: "$HOME {{.job}}"}}}
  other-way: {command: [echo], notify: {shell: "cat >&2"}}
  own: {command: [echo], notify: {command: [cat], template: {x: "{{.event}}"}}}
`)
	got := map[string]string{}
	for name, job := range c.Set.Jobs {
		template := job.Notify.Handler
		got[name] = "the notification"
		if _, ok := template.(jobs.Wrapper); ok {
			got[name] = template.(jobs.Identified).Identity()
		}
	}
	for name, want := range map[string]string{
		"as-defaults": `{"text":"{{.text}}","n":[1,true]}`, "other-events": `{"text":"{{.text}}","n":[1,true]}`, "other-template": `{"text":"$HOME {{.job}}"}`, "other-way": "the notification", "own": `{"x":"{{.event}}"}`,
	} {
		if !strings.Contains(got[name], want) {
			t.Errorf("%s sends %s, want %s", name, got[name], want)
		}
	}
}

// Who expects something of a job, and is told of no late run, is warned once, with what to write.
func TestLateRunsThatNobodyIsToldOf(t *testing.T) {
	const expects = "expect: {start_within: 1m}"
	for text, want := range map[string]string{
		"jobs: {a: {command: [echo]}}": "",
		"jobs: {a: {command: [echo], " + expects + ", notify: {webhook: \"http://h.internal/\", on: [late]}}}":                                                         "",
		"defaults: {notify: {webhook: \"http://h.internal/\", on: [late]}}\njobs: {a: {command: [echo], " + expects + "}}":                                             "",
		"jobs: {a: {command: [echo], " + expects + "}}":                                                                                                                `lockstep.yaml:2:37: jobs.a.expect: nobody is told of a run that is late, since notify of the job does not have late: only the log says so; write notify: {webhook: …, on: [late]} beside it`,
		"jobs: {a: {command: [echo], " + expects + ", notify: {webhook: \"http://h.internal/\"}}}":                                                                     `lockstep.yaml:2:37: jobs.a.expect: nobody is told of a run that is late, since notify of the job does not have late: only the log says so; add it, as in on: [failed, missed, lost, recovered, suspended, late]`,
		"jobs: {a: {command: [echo], " + expects + ", notify: {webhook: \"http://h.internal/\", on: [lost]}}}":                                                         `lockstep.yaml:2:37: jobs.a.expect: nobody is told of a run that is late, since notify of the job does not have late: only the log says so; add it, as in on: [lost, late]`,
		"defaults: {" + expects + "}\njobs: {c: {command: [echo]}, b: {command: [echo]}, d: {command: [echo], notify: {webhook: \"http://h.internal/\", on: [late]}}}": `lockstep.yaml:2:20: jobs.b.expect: nobody is told of a run that is late, since notify of the job does not have late: only the log says so, and so it is with 1 more; write notify: {webhook: …, on: [late]} beside it`,
	} {
		c := load(t, text)
		if got := strings.Join(warnings(c), "\n"); got != want {
			t.Errorf("%s:\n%s, want\n%s", text, got, want)
		}
	}
}
