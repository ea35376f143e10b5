package config_test

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// The monitor outside is called by GET, or as it says, and its path is shown nowhere. A reload may change it.
func TestPing(t *testing.T) {
	for text, want := range map[string]struct {
		every time.Duration
		how   string
	}{
		``:         {0, ""},
		`ping: {}`: {0, ""},
		`ping:`:    {0, ""},
		`ping: {url: "https://hc-ping.com/secret?x=y"}`:                                              {0, "GET https://hc-ping.com/… expecting 2xx within 10s"},
		`ping: {url: "https://am/api/v2/alerts", every: 30s, method: POST, body: "[]", timeout: 3s}`: {30 * time.Second, "POST https://am/… expecting 2xx within 3s"},
		`ping: {url: "", every: 30s}`:                                                                {0, ""},
	} {
		c := load(t, text+"\npools: {p: {command: [cat]}}\n")
		how := ""
		if h := c.Set.Ping.Handler; h != nil {
			how = h.(jobs.Described).Describe()
		}
		if c.Set.Ping.Every != want.every || how != want.how {
			t.Errorf("%s: every %v, %q", text, c.Set.Ping.Every, how)
		}
	}
	before, after := load(t, "pools: {p: {command: [cat]}}"), load(t, "ping: {url: \"https://hc-ping.com/secret\"}\npools: {p: {command: [cat]}}")
	if paths := after.NeedsRestart(before); len(paths) > 0 {
		t.Errorf("needs a restart: %q", paths)
	}
}
