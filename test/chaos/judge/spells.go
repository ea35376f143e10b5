package judge

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Codes of due times and tasks that an edit leaves behind.
const (
	codeEdited    = "schedule_changed"
	codeRemoved   = "job_removed"
	codeSuspended = "suspended"
)

// edited reports whether a row is of due times that an edit has overtaken: no replica has decided it.
func edited(r history.Row) bool {
	return r.Code == codeEdited || r.Code == codeRemoved && r.TaskID == "" ||
		r.Seq == 0 && r.Replica == "" && (r.Code == codeCalendar || r.Code == codeSuspended)
}

// spell is a time in which a job has one schedule.
type spell struct {
	due         []history.Every // none: no configuration has the job
	after       time.Time       // its cursor at the beginning: only later due times are of this spell
	until       time.Time       // what is due up to here is of this spell, and has rows
	ended       time.Time       // when the next one came, by the database
	from, to    int64           // Seq of the changes that begin it and the next one; 0: none
	next        int64           // Seq of the change that ends the next one; 0: none
	first, last bool
}

// has reports whether a row was written in a spell. The row of what an edit has overtaken is written with the next one.
func (s spell) has(row history.Change) bool {
	if row.After != nil && edited(*row.After) {
		return !s.last && row.Seq > s.to && (s.next == 0 || row.Seq < s.next)
	}
	return row.Seq > s.from && (s.last || row.Seq < s.to)
}

// spells are those of a job: its row has a hash of its schedule, which is compared with others only, and says in what order the database saw them. What they are, the
// files say that replicas were given. The part of I1 about edits is here:
//
//   - A schedule comes to be after its file was written, in the order of versions; an invalid file changes nothing, and an older one does not come back.
//   - The cursor is not before that: nothing of the past is due by a new schedule.
//
// No excuses.
func (t *trial) spells(job history.Job) []spell {
	all := []spell{{due: job.Due, first: true, last: true}}
	versions := t.versions(job)
	hashes := map[string][]history.Every{}
	for _, c := range t.h.Audit {
		if c.Table != "jobs" || c.After == nil || c.After.Job != job.Name || c.Before != nil && c.Before.Schedule == c.After.Schedule {
			continue
		}
		before := &all[len(all)-1]
		if c.Before == nil && len(job.Due) > 0 { // the first one
			hashes[c.After.Schedule] = job.Due
			continue
		}
		if len(versions) == 0 {
			t.violate(Accounted, job.Name, dbTime(c.At), "its schedule has changed, and no file had another one")
			return all
		}
		v := versions[0]
		versions = versions[1:]
		is, at := spell{due: v.due, after: dbTime(c.After.Cursor), from: c.Seq, last: true}, dbTime(c.At)
		switch known, seen := hashes[c.After.Schedule]; {
		case seen && !reflect.DeepEqual(known, v.due):
			t.violate(Accounted, job.Name, dbTime(c.At), "its schedule is again one that was replaced before version %d", v.number)
		case t.sameClock(c.Seq) && at.Before(v.at.Add(-clockError)):
			t.violate(Accounted, job.Name, at, "its schedule has changed %v before version %d was written", ms(v.at.Sub(at)), v.number)
		case len(v.due) > 0 && t.sameClock(c.Seq) && is.after.Before(v.at.Add(-clockError)):
			t.violate(Accounted, job.Name, dbTime(c.At), "its new schedule is due from %s on, %v before version %d was written", is.after.Format("15:04:05.999"), ms(v.at.Sub(is.after)), v.number)
		}
		hashes[c.After.Schedule] = v.due
		before.last, before.to, before.ended, before.until = false, c.Seq, at, is.after
		if len(v.due) == 0 { // the cursor does not move, and the decision has read its clock before
			before.until = at.Add(-seen)
		}
		if len(all) > 1 {
			all[len(all)-2].next = c.Seq
		}
		all = append(all, is)
	}
	if len(versions) > 0 && len(t.h.Audit) > 0 {
		t.unloaded(job, versions[0])
	}
	return all
}

// loadTime is how long after it was written a version must govern.
const loadTime = 20 * time.Second

// unloaded judges a version that no job's row has at the end.
func (t *trial) unloaded(job history.Job, v version) {
	if by := v.at.Add(loadTime + t.run.Slack); by.Before(t.run.Quiesced) {
		t.violate(Recovers, job.Name, by, "version %d, written at %s, has not come to be", v.number, v.at.UTC().Format("15:04:05.000"))
	}
}

// version is a version of the configuration with another schedule of a job than the one before.
type version struct {
	number int
	at     time.Time // when a replica was given it first
	due    []history.Every
}

// versions are those that change the schedule of a job.
func (t *trial) versions(job history.Job) (all []version) {
	edits := slices.SortedStableFunc(slices.Values(t.h.Edits), func(a, b history.Edit) int { return a.At.Compare(b.At) })
	due, newest := job.Due, 0
	for _, e := range edits {
		if e.What != history.EditNew || e.Version <= newest {
			continue
		}
		newest = e.Version
		moved := job
		if moved.Due = e.Due[job.Name]; e.Due[job.Name] != nil {
			moved.Due = spread(moved)
		}
		if _, differs := e.Due[job.Name]; !differs && !t.differs(job) || reflect.DeepEqual(due, moved.Due) {
			continue
		}
		due = moved.Due
		all = append(all, version{e.Version, e.At, due})
	}
	return all
}

// differs reports whether versions have a job in different ways.
func (t *trial) differs(job history.Job) bool {
	return slices.ContainsFunc(t.h.Edits, func(e history.Edit) bool { return e.Due[job.Name] != nil })
}

// removed returns what is wrong with a row or task of a job that no configuration has: one had to be written that lacks it.
func (t *trial) removed(r history.Row, job history.Job) string {
	for _, v := range t.versions(job) {
		if len(v.due) == 0 && !v.at.After(dbTime(max(r.DecidedAt, r.FinishedAt)).Add(clockError)) {
			return ""
		}
	}
	return fmt.Sprintf("no configuration was without %s", job.Name)
}
