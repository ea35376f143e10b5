package config

import (
	"encoding/json"
	"fmt"
	"strings"
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

	template *jobs.Template // of the handler
	place    *yaml.Node     // of the template that this draft has read; nil: it has none of its own
}

var (
	// notifierKeys select the handler: a webhook, or one that a job may have.
	notifierKeys = join(doingKeys, schema[handlerDraft]{"webhook": readWebhook})
	notifyKeys   = join(schema[notifyDraft]{"on": readEvents, "template": readTemplate}, lift(join(notifierKeys, processKeys), func(d *notifyDraft) *handlerDraft { return &d.handlerDraft }))
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
		inherited := d.template
		d.handlerDraft, d.template, d.place = handlerDraft{}, nil, nil
		d.own = r.path[0] != "defaults"
		object(r, n, notifyKeys, d)
		if deref(n).Kind != yaml.MappingNode {
			return
		}
		const hint = "there is one handler: webhook, command, shell, http or func"
		if h := r.oneHandler(n, d.handlerDraft, notifierKeys, hint); h != nil {
			d.handler = h
		} else if d.place == nil {
			d.template = inherited
		}
		switch {
		case d.place == nil:
		case d.handler == nil && d.own:
			r.within("template", func() {
				r.fail(d.place, "there is nothing to send it by", "add webhook, http, command or shell beside it")
			})
		case d.function != "":
			r.within("template", func() { r.fail(d.place, "is not for func: a function gets the notification itself", "remove it") })
		}
	}
}

// notify returns the settings of a job or pool. Events in the defaults without a handler are no error of the job.
func (d notifyDraft) notify() jobs.Notify {
	if d.handler == nil && !d.own {
		return jobs.Notify{}
	}
	n := jobs.Notify{On: d.on, Handler: d.handler}
	if d.template != nil {
		n.Handler = d.template.Send(d.handler)
	}
	return n
}

// readTemplate reads the form of what is sent. Its texts are templates, so no variables of the environment are filled in.
func readTemplate(r *reader, n *yaml.Node, d *notifyDraft) {
	d.place = n
	before := len(r.report.found)
	r.checkTexts(n)
	body, ok := r.payload(n).(json.RawMessage)
	if !ok || len(r.report.found) > before {
		return
	}
	template, err := jobs.ParseTemplate(body)
	if err != nil {
		r.fail(n, strings.TrimPrefix(err.Error(), jobs.ErrInvalid.Error()+" template: "), "")
		return
	}
	d.template = template
}

// checkTexts checks each text of a template where it stands.
func (r *reader) checkTexts(n *yaml.Node) {
	switch n := deref(n); n.Kind {
	case yaml.SequenceNode:
		r.items(n, r.checkTexts)
	case yaml.MappingNode:
		r.each(n, func(_, value *yaml.Node) { r.checkTexts(value) })
	case yaml.ScalarNode:
		if n.ShortTag() == "!!str" {
			if err := jobs.CheckTemplateText(n.Value); err != nil {
				r.fail(n, err.Error(), "")
			}
		}
	}
}

var events = []jobs.Event{jobs.EventFailed, jobs.EventMissed, jobs.EventLost, jobs.EventRecovered, jobs.EventPaused, jobs.EventSuspended, jobs.EventLate, jobs.EventStarted, jobs.EventSucceeded}

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

// adviseUnheard warns about jobs whose late runs nobody is told of: that has to be asked for. It is one warning, since expect may stand in the defaults.
func (r *reader) adviseUnheard() {
	first, others := "", 0
	for name, job := range r.c.Set.Jobs {
		switch {
		case job.Expect == (jobs.Expect{}) || job.Notify.Wants(jobs.EventLate):
		case first == "":
			first = name
		default:
			first, others = min(first, name), others+1
		}
	}
	if first == "" {
		return
	}
	problem, hint := "nobody is told of a run that is late, since notify of the job does not have late: only the log says so", "write notify: {webhook: …, on: [late]} beside it"
	if job := r.c.Set.Jobs[first]; job.Notify.Handler != nil {
		on := job.Notify.On
		if on == nil { // those that it has without on
			on = job.Notify.EventsOfJobs()
		}
		hint = "add it, as in on: ["
		for _, event := range on {
			hint += string(event) + ", "
		}
		hint += string(jobs.EventLate) + "]"
	}
	if others > 0 {
		problem += fmt.Sprintf(", and so it is with %d more", others)
	}
	r.advise("jobs."+first+".expect", problem, hint)
}
