package config

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
)

// webhookTimeout bounds a webhook's response: others are waiting.
const webhookTimeout = 10 * time.Second

// notifyDraft is notify being read: first of the defaults, then of the job.
type notifyDraft struct {
	handlerDraft
	on      []jobs.Event
	handler jobs.Handler
	own     bool // set by the job or pool itself
}

var (
	// notifierKeys select the handler: a webhook, or one that a job may have.
	notifierKeys = join(doingKeys, schema[handlerDraft]{"webhook": readWebhook})
	notifyKeys   = join(schema[notifyDraft]{"on": readEvents}, lift(join(notifierKeys, processKeys), func(d *notifyDraft) *handlerDraft { return &d.handlerDraft }))
)

// notifyField reads notify of the defaults, a job or a pool. An empty map turns notifications off; a handler inherits
// nothing from the defaults.
func notifyField[T any](place func(*T) *notifyDraft) read[T] {
	return func(r *reader, n *yaml.Node, into *T) {
		d := place(into)
		if n := deref(n); n.Kind != yaml.SequenceNode && len(n.Content) == 0 && empty(n) {
			*d = notifyDraft{}
			return
		}
		d.handlerDraft = handlerDraft{}
		d.own = r.path[0] != "defaults"
		object(r, n, notifyKeys, d)
		if deref(n).Kind != yaml.MappingNode {
			return
		}
		const hint = "there is one handler: webhook, command, shell, http or func"
		if h := r.oneHandler(n, d.handlerDraft, notifierKeys, hint); h != nil {
			d.handler = h
		}
	}
}

// notify returns the settings of a job or pool. Events in the defaults without a handler are no error of the job.
func (d notifyDraft) notify() jobs.Notify {
	if d.handler == nil && !d.own {
		return jobs.Notify{}
	}
	return jobs.Notify{On: d.on, Handler: d.handler}
}

var events = []jobs.Event{jobs.EventFailed, jobs.EventMissed, jobs.EventLost, jobs.EventRecovered, jobs.EventPaused}

func readEvents(r *reader, n *yaml.Node, d *notifyDraft) {
	d.on = []jobs.Event{}
	r.items(n, func(item *yaml.Node) {
		if e, ok := choice(r, item, events); ok {
			d.on = append(d.on, e)
		}
	})
}

func readWebhook(r *reader, n *yaml.Node, d *handlerDraft) {
	if url, ok := r.text(n); ok {
		d.http = &httphandler.Request{URL: url, Timeout: webhookTimeout, SecretPath: true}
	}
}
