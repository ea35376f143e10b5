package config

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
)

// pingDraft is ping being read.
type pingDraft struct {
	request httphandler.Request
	every   time.Duration
}

var pingKeys = join(
	schema[pingDraft]{"every": durationField(time.Second, func(d *pingDraft) *time.Duration { return &d.every })},
	lift(requestKeys, func(d *pingDraft) *httphandler.Request { return &d.request }),
)

// readPing reads what is called outside; an empty map is nobody, and so is an empty url, as of a variable. Its path is a secret, as that of a webhook.
func readPing(r *reader, n *yaml.Node, c *Config) {
	d := pingDraft{request: httphandler.Request{Method: http.MethodGet, Timeout: webhookTimeout, SecretPath: true}}
	object(r, n, pingKeys, &d)
	if deref(n).Kind != yaml.MappingNode || len(deref(n).Content) == 0 || r.find(n, "url") != nil && d.request.URL == "" {
		return
	}
	h, err := httphandler.New(d.request)
	if err == nil {
		c.Set.Ping = jobs.Ping{Every: d.every, Handler: h}
		return
	}
	for line := range strings.Lines(err.Error()) {
		key, problem, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), jobs.ErrInvalid.Error()+": "), ": ")
		where := cmp.Or(r.find(n, key), n)
		if r.report.has(r.file.at(where)) {
			continue
		}
		problem, hint, _ := strings.Cut(problem, "; ")
		r.within(key, func() { r.fail(where, problem, hint) })
	}
}
